// A model in stages, as a step and a test run it.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "sullae/parallel/pipeline.h"
#include "sullae/train/objective.h"
#include "sullae/train/stages.h"

namespace sullae::train {

/// Batches go through a Pipeline by their numbers, since all ranks have them. Used by the training
/// thread; collective over the stages.
class StagedModel {
 public:
  /// `stages` are the model's. Both, and the objective, must outlive this object.
  StagedModel(torch::nn::Module& model, HasStages& stages, const Objective& objective);

  /// Forward and backward of `batches`, whose losses, each as often as its weight says, add up:
  /// their sum, on every rank. Gradients are multiplied by `scale`.
  double train(const std::vector<Batch>& batches, const std::vector<double>& weights, double scale);
  /// Objective::measure() of each, on every rank.
  std::vector<Tally> measure(const std::vector<Batch>& batches);
  /// How many batches keep all ranks at work.
  std::size_t batches_together() const;

 private:
  // On the last rank: what becomes of a batch, which is number `at`.
  using Last = std::function<torch::Tensor(const Batch& batch, std::size_t at)>;
  torch::Tensor run(int own, const torch::Tensor& arrived);
  void begin(const std::vector<Batch>& batches, Last last);
  bool has_last() const { return world_.rank() == world_.size() - 1; }

  torch::nn::Module& model_;
  HasStages& stages_;
  const Objective& objective_;
  World world_;
  const std::vector<Batch>* batches_ = nullptr;  // that run, in this order
  std::vector<std::size_t> next_;                // of each of this rank's stages
  Last last_;
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace sullae::train
