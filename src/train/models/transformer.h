// Transformers (A. Vaswani et al., 2017), with norms first (R. Xiong et al., 2020).
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

#include "train/task.h"

namespace sullae::train {

struct TransformerOptions {
  /// Numbers that texts are made of; 0 is padding.
  std::int64_t pieces = 0;
  /// Places of a text.
  std::int64_t places = 64;
  std::int64_t classes = 2;
  std::int64_t embedding_size = 128;
  std::int64_t heads = 4;
  std::int64_t layers = 2;
  double dropout = 0.1;
};

/// The places of a batch that have pieces, of texts of different lengths: most of the work is done on those alone.
struct FilledPlaces {
  /// `pieces`, [batch, time] int64, with zeros behind the shorter texts.
  explicit FilledPlaces(const torch::Tensor& pieces);
  std::int64_t batch;
  std::int64_t time;
  torch::Tensor at;        ///< [filled] int64, among batch × time
  torch::Tensor may_look;  ///< [batch, 1, 1, time] bool
};

/// Attention and a network of four times the size, each with a norm before and a sum after. [filled, size] → the same.
class TransformerBlockImpl : public torch::nn::Cloneable<TransformerBlockImpl> {
 public:
  TransformerBlockImpl(std::int64_t size, std::int64_t heads, double dropout)
      : size_(size), heads_(heads), dropout_(dropout) {
    TransformerBlockImpl::reset();
  }
  void reset() override;
  torch::Tensor forward(const torch::Tensor& input, const FilledPlaces& places);

 private:
  torch::Tensor attend(const torch::Tensor& x, const FilledPlaces& places);

  std::int64_t size_;
  std::int64_t heads_;
  double dropout_;
  torch::nn::LayerNorm norm1_{nullptr};
  torch::nn::Linear qkv_{nullptr};
  torch::nn::Linear mix_{nullptr};
  torch::nn::LayerNorm norm2_{nullptr};
  torch::nn::Linear up_{nullptr};
  torch::nn::Linear down_{nullptr};
};
TORCH_MODULE(TransformerBlock);

/// Vectors of pieces and of places, blocks, and a linear layer over the mean of all places.
///
/// Inputs: [batch, time] int64, with zeros behind the shorter texts.
class TransformerClassifierImpl : public torch::nn::Cloneable<TransformerClassifierImpl>,
                                  public Classifier {
 public:
  /// Throws InputError for sizes that do not go together.
  explicit TransformerClassifierImpl(const TransformerOptions& options);
  void reset() override;
  torch::Tensor scores(const Batch& batch) override;
  torch::jit::Module script() const override;

 private:
  TransformerOptions options_;
  torch::nn::Embedding embedding_{nullptr};
  torch::nn::Embedding places_{nullptr};
  torch::nn::ModuleList blocks_{nullptr};
  torch::nn::LayerNorm norm_{nullptr};
  torch::nn::Linear output_{nullptr};
};

}  // namespace sullae::train
