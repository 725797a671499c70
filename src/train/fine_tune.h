// Training a trained model further on samples that came since, without forgetting what it knew.
#pragma once

#include <functional>

#include "sullae/sullae.h"
#include "train/fine_tune_options.h"
#include "train/task.h"

namespace sullae::train {

struct Accuracy {
  double loss = 0;
  double accuracy = 0;  ///< from 0 to 1
  double counted = 0;   ///< over so many: samples, or pieces of texts
};

struct Measured {
  Accuracy before;
  Accuracy after;
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

/// Trains the model of `refinement`, whose weights are loaded and the same on all ranks. Of the
/// added samples those from number `first_changed` on (counted among the added) are new; those
/// before it were trained in an earlier round, and are replayed. Each epoch draws its old samples
/// anew. `progress` is called after each step with it and their number. Collective.
FineTuneResult fine_tune(Refinement& refinement, std::size_t first_changed,
                         const FineTuneOptions& options, const World& world,
                         const std::function<void(std::int64_t, std::int64_t)>& progress);

}  // namespace sullae::train
