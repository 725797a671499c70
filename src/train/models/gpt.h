// A transformer that writes (A. Radford et al., 2019: GPT-2).
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "sullae/train/stages.h"
#include "sullae/train/units.h"
#include "train/models/transformer_block.h"
#include "train/task.h"

namespace sullae::train {

struct GptOptions {
  /// Numbers that texts are made of.
  std::int64_t pieces = 0;
  /// Places that it sees.
  std::int64_t context = 128;
  TransformerStack stack = {.size = 128, .heads = 4, .layers = 4, .dropout = 0.1};
  Division division = {};
};

/// Vectors of pieces and of places, and blocks, in which a place sees those before it; what comes
/// next is scored by the vectors of the pieces again.
///
/// Inputs: [batch, time] int64, at most `context` places.
class GptImpl : public torch::nn::Cloneable<GptImpl>,
                public LanguageModel,
                public HasUnits,
                public HasStages {
 public:
  /// Throws InputError for sizes that do not go together.
  explicit GptImpl(const GptOptions& options);
  void reset() override;
  torch::Tensor read(const torch::Tensor& pieces, const UseOfStates& use) override;
  torch::Tensor go_on(const std::vector<NewPieces>& texts) override;
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
  torch::Tensor begin(const torch::Tensor& pieces);

  GptOptions options_;
  PieceEmbedding embedding_{nullptr};
  torch::nn::Embedding places_{nullptr};
  TransformerBlocks blocks_;
  torch::nn::LayerNorm norm_{nullptr};
  Layer ends_;             // what is not blocks
  torch::Tensor arrived_;  // of the stage before
};

}  // namespace sullae::train
