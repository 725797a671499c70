// A transformer that classifies texts.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "sullae/train/stages.h"
#include "sullae/train/units.h"
#include "train/models/transformer_block.h"
#include "train/task.h"

namespace sullae::train {

struct TransformerOptions {
  /// Numbers that texts are made of; 0 is padding.
  std::int64_t pieces = 0;
  /// Places of a text.
  std::int64_t places = 64;
  std::int64_t classes = 2;
  TransformerStack stack = {};
  Division division = {};
};

/// Vectors of pieces and of places, blocks, and a linear layer over the mean of all places.
///
/// Inputs: [batch, time] int64, with zeros behind the shorter texts.
class TransformerClassifierImpl : public torch::nn::Cloneable<TransformerClassifierImpl>,
                                  public Classifier,
                                  public HasUnits,
                                  public HasStages {
 public:
  /// Throws InputError for sizes that do not go together.
  explicit TransformerClassifierImpl(const TransformerOptions& options);
  void reset() override;
  torch::Tensor scores(const Batch& batch) override;
  torch::jit::Module script() const override;
  ShardedUnits* units() override { return options_.division.units.get(); }
  const World* stages() const override { return options_.division.stage_ranks(); }
  int stages_per_rank() const override { return blocks_.stages(); }
  int stage_of(const std::string& name) const override {
    return blocks_.stage_of(name, options_.division);
  }
  torch::Tensor run_stage(int own, const Batch& batch, const torch::Tensor& arrived) override;
  void begin_with(const torch::Tensor& arrived) override { arrived_ = arrived; }

 private:
  torch::Tensor drop(const torch::Tensor& x) const;
  torch::Tensor begin(const torch::Tensor& pieces, const Places& places);

  TransformerOptions options_;
  PieceEmbedding embedding_{nullptr};
  torch::nn::Embedding places_{nullptr};
  TransformerBlocks blocks_;
  torch::nn::LayerNorm norm_{nullptr};
  torch::nn::Linear output_{nullptr};
  Layer ends_;             // what is not blocks
  torch::Tensor arrived_;  // of the stage before
};

}  // namespace sullae::train
