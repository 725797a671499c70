// The observers that options ask for.
#pragma once

#include <memory>
#include <vector>

#include "sullae/train/observer.h"
#include "sullae/train/options.h"

namespace sullae::train {

/// A line for people, and the files of --run-dir, --report, --tensorboard-dir and --metrics-file:
/// on rank 0; none elsewhere. Another way to watch a run is a class and a line in monitors.cc.
std::vector<std::unique_ptr<Observer>> make_monitors(const TrainOptions& options, int rank);

}  // namespace sullae::train
