// Training a trained model further on samples that came since, without forgetting what it knew.
#pragma once

#include <functional>

#include "sullae/sullae.h"
#include "train/evaluation.h"
#include "train/task.h"

namespace sullae::train {

struct FineTuneOptions {
  int epochs = 10;
  /// Samples a step over all ranks together.
  int batch_size = 64;
  /// At the first step; it falls linearly to 0.
  double lr = 1e-3;
  /// Old samples that are trained with each changed one.
  double replay = 4;
  /// Test samples that are judged by, drawn at random; 0 takes all.
  std::size_t test_samples = 10000;
  std::uint64_t seed = 1;
};

struct Measured {
  Evaluation before;
  Evaluation after;
  std::size_t samples = 0;
};

struct FineTuneResult {
  /// The samples for which it was done: the added ones from `first_changed` on.
  Measured changed;
  /// Those added before.
  Measured earlier;
  /// The test set of the old data.
  Measured test;
  std::int64_t steps = 0;
  /// Old and earlier samples of an epoch.
  std::size_t replayed = 0;
};

/// Trains the model of `refinement`, whose weights are loaded and the same on all ranks. Of the added samples
/// those from number `first_changed` on (counted among the added) are new; those before it were trained in an
/// earlier round, and are replayed. Each epoch draws its old samples anew. `progress` is called after each step
/// with it and their number. Collective.
FineTuneResult fine_tune(Refinement& refinement, std::size_t first_changed,
                         const FineTuneOptions& options, World& world,
                         const std::function<void(std::int64_t, std::int64_t)>& progress);

}  // namespace sullae::train
