// A data set through a model, into part files: by one process, or by the ranks of a world.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "predict/evaluation.h"
#include "predict/options.h"
#include "sullae/sullae.h"

namespace sullae::predict {

struct Predicted {
  std::size_t rows = 0;
  std::size_t damaged = 0;
  /// Of the data: what lies behind the damage is not read.
  std::size_t torn_files = 0;
  std::size_t files = 0;
  /// Files that were there before.
  std::size_t found = 0;
  /// Of this run's own rows, all ranks together; 0 where nothing was left to do.
  double rows_per_second = 0;
  std::optional<Confusion> confusion;  ///< with --labels
};

/// How far a rank is. `total`: the samples that it has to do.
using ShowProgress = std::function<void(std::size_t done, std::size_t total)>;

/// Predicts what is missing in `options.output`, and completes it. What is written depends on the
/// model, the data and the options, and not on the number of ranks and workers, or on how often it
/// was begun. Sets the threads of libtorch to one: batches are computed side by side. Collective;
/// what is returned is the same on all ranks. Throws InputError and Error.
Predicted predict(const PredictOptions& options, const World& world, const ShowProgress& show);

}  // namespace sullae::predict
