// Networks for texts.
#pragma once

#include <torch/torch.h>

#include "train/models/row_source.h"
#include "train/task.h"

namespace sullae::train {

struct TextModelOptions {
  /// Vectors, those of pairs included.
  std::int64_t words = 0;
  /// The last ones are pairs', found by hashing.
  std::int64_t word_pairs = 0;
  std::int64_t classes = 2;
  std::int64_t embedding_size = 300;
  std::int64_t hidden_size = 300;
  std::int64_t layers = 1;
  double dropout = 0.3;
};

/// A vector a word, an LSTM, and a linear layer over its last state.
///
/// Inputs: the batch's words packed by time step, those of the longest text first, and the number
/// of texts that reach each time step (int64, on the CPU).
class TextLstmImpl : public torch::nn::Cloneable<TextLstmImpl>, public Classifier, public HasTable {
 public:
  explicit TextLstmImpl(const TextModelOptions& options) : options_(options) { reset(); }
  void reset() override;
  torch::Tensor scores(const Batch& batch) override;
  torch::jit::Module script() const override;
  torch::Tensor table() const override { return embedding_->weight; }
  std::string table_name() const override { return "embedding.weight"; }

 private:
  TextModelOptions options_;
  torch::nn::Embedding embedding_{nullptr};
  torch::nn::LSTM lstm_{nullptr};
  torch::nn::Linear output_{nullptr};
};

/// The mean of a text's word vectors, and a linear layer (A. Joulin et al., 2016: fastText).
///
/// Inputs: the batch's words, one text after the other, and where each text starts (int64).
class TextBagImpl : public torch::nn::Cloneable<TextBagImpl>, public Classifier, public HasTable {
 public:
  explicit TextBagImpl(const TextModelOptions& options) : options_(options) { reset(); }
  void reset() override;
  torch::Tensor scores(const Batch& batch) override;
  torch::jit::Module script() const override;
  torch::Tensor table() const override { return embedding_->weight; }
  std::string table_name() const override { return "embedding.weight"; }

 private:
  TextModelOptions options_;
  torch::nn::EmbeddingBag embedding_{nullptr};
  torch::nn::Linear output_{nullptr};
};

}  // namespace sullae::train
