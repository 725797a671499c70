// Epochs of steps, each with a test at its end: what training a recipe, a model of the user's own, and a trained model
// further have in common.
#pragma once

#include <torch/nn/module.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sullae/sullae.h"
#include "sullae/train/data.h"
#include "sullae/train/objective.h"
#include "sullae/train/observer.h"
#include "train/evaluation.h"
#include "train/run_state.h"
#include "train/saver.h"
#include "train/schedule.h"
#include "train/step_plan.h"
#include "train/stepper.h"
#include "train/throughput.h"

namespace sullae::train {

/// All of it must outlive the loop.
struct LoopParts {
  torch::nn::Module& model;
  const Objective& objective;
  Data& data;
  const Plan& plan;
  std::string name;
  std::vector<Observer*> observers;
  /// Adds to each checkpoint; may be empty.
  std::function<void(CheckpointMetadata&)> describe;
  /// After each epoch.
  bool tests = true;
};

/// Used by the training thread.
class Loop {
 public:
  /// `options` are checked, and outlive the loop. Collective.
  Loop(LoopParts parts, const TrainOptions& options, const World& world);

  /// Trains. Collective.
  Report run();
  /// The weights as they are after it, without the optimizer.
  SerializedCheckpoint weights(CheckpointMetadata metadata) const;

 private:
  void describe();
  std::unique_ptr<torch::optim::Optimizer> resume();
  void adapt_to_batch_size();
  void start_stepper(const std::unique_ptr<torch::optim::Optimizer>& loaded);
  bool ended() const { return options_.max_steps > 0 && state_.steps >= options_.max_steps; }
  void train_epoch();
  void step(BatchStream& stream, double data_before);
  void end_epoch();
  void test(std::int64_t epoch);
  bool is_best();
  Moment moment(double loss, double lr) const;
  void finish_report();

  template <class... Parameters, class... Arguments>
  void tell(void (Observer::*what)(Parameters...), const Arguments&... arguments) const {
    for (Observer* const observer : parts_.observers) (observer->*what)(arguments...);
  }

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  LoopParts parts_;
  const TrainOptions& options_;
  World world_;
  std::vector<Metric> metrics_;
  std::int64_t steps_per_epoch_;
  Schedule schedule_;
  Saver saver_;
  Throughput throughput_;
  RunState state_;
  Report report_;
  std::optional<Stepper> stepper_;
};

}  // namespace sullae::train
