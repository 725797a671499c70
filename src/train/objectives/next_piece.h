// Cross-entropy of what follows, without the scores of all pieces at all places in memory at once:
// of a batch of texts those would be many times all else.
#pragma once

#include <torch/types.h>

#include "sullae/train/objective.h"
#include "train/models/piece_embedding.h"

namespace sullae::train {

/// Of places with `states` [places, size] and what follows them, `labels` [places] int64: the
/// cross-entropies of the scores states × vectors, each times `weights` [places] float32, added up.
/// Places without a label (negative) need a weight of 0. One number, with a graph; scores and their
/// gradients are computed together, some places at a time. Where ranks have parts of the vectors
/// all of them call, and get the same number.
torch::Tensor next_piece_loss(const torch::Tensor& states, const PieceVectors& vectors,
                              const torch::Tensor& labels, const torch::Tensor& weights);

/// LanguageModelling of a recipe's LanguageModel: the same numbers, without the scores of which
/// that is made.
class NextPiece final : public LanguageModelling {
 public:
  NextPiece() : LanguageModelling(Forward()) {}
  torch::Tensor loss(torch::nn::Module& model, const Batch& batch) const override;
  Tally measure(torch::nn::Module& model, const Batch& batch) const override;
};

}  // namespace sullae::train
