// Models of which ranks have some layers each.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <string>

#include "sullae/parallel/stage_numbers.h"
#include "sullae/sullae.h"
#include "sullae/train/data.h"

namespace sullae::train {

/// What a model is, besides a torch::nn::Module, of which each rank has some layers, one behind the
/// other's: TrainOptions::mesh = "pp=4". The parts of a step (TrainOptions::accumulation_steps) go
/// through the ranks as in a Pipeline, and the last rank has the objective. Parameters have the
/// names that they have in the whole model, which registers them in the order of the stages; what
/// several ranks have by one name is one. To begin as one process does, a rank draws what others
/// have, too, and drops it. What is between ranks goes through host memory, also from one GPU to
/// another.
class HasStages : public StageNumbers {
 public:
  /// The ranks that have the layers, in their order; null where all are here.
  virtual const World* stages() const = 0;
  /// How many stages each rank has: rank r of P has those numbered r, P + r, 2P + r, …
  /// (interleaved, for a smaller bubble and more messages).
  virtual int stages_per_rank() const { return 1; }
  /// With several stages a rank, which must have their own; with one, ranks are in the order of
  /// stages.
  int stage_of(const std::string& name) const override {
    if (stages_per_rank() != 1)
      throw InputError("HasStages: '" + name +
                       "': expected a stage_of() for several stages a rank");
    return 0;
  }
  /// What a stage makes of `batch`, for the next one: one tensor, of any shape. `own` is its number
  /// among this rank's. `arrived` is what the stage before has made of it; undefined for the first.
  /// Not called of the last.
  virtual torch::Tensor run_stage(int own, const Batch& batch, const torch::Tensor& arrived) = 0;
  /// Of the last: what the objective asks of the model begins with what has arrived of that batch.
  /// Undefined: it was that.
  virtual void begin_with(const torch::Tensor& arrived) = 0;
};

/// Of a model that has some on other ranks; null for others.
HasStages* stages_of(torch::nn::Module& model);

}  // namespace sullae::train
