// Writes a run's checkpoints, and takes the newest up.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <optional>
#include <string>

#include "train/checkpoints.h"
#include "train/options.h"
#include "train/ranks.h"
#include "train/run_state.h"
#include "train/stepper.h"

namespace sullae::train {

/// Does nothing without --checkpoint-dir. Used by the training thread.
class Saver {
 public:
  /// `describe` adds to each checkpoint; it may be empty.
  Saver(const TrainOptions& options, std::string name,
        std::function<void(CheckpointMetadata&)> describe, const Ranks& ranks, Contested contested);

  /// Throws InputError, on every rank, where there are checkpoints already. Collective.
  void expect_new_run();
  /// Finds the newest checkpoint, whose file rank 0 gets to know, and gives every rank the state;
  /// empty where there is none yet. Where `loaded` has an optimizer, rank 0 loads that and the
  /// model. Collective.
  std::optional<RunState> load(torch::nn::Module& model, LoadedCheckpoint& loaded);
  /// Collective. Returns where it will be, on rank 0.
  std::string save(const RunState& state, const torch::nn::Module& model, Stepper& stepper,
                   bool best);
  /// Until all is written. Throws what writing threw.
  void wait();

 private:
  const TrainOptions& options_;
  std::function<void(CheckpointMetadata&)> describe_;
  Ranks ranks_;
  std::optional<Checkpoints> checkpoints_;  // on rank 0
};

}  // namespace sullae::train
