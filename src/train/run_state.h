// Where a training run stands: what it must know, besides weights and the optimizer, to go on as if
// it had never stopped.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sullae/sullae.h"
#include "sullae/torch/checkpoint.h"
#include "sullae/train/observer.h"
#include "train/ranks.h"

namespace sullae::train {

struct RunState {
  std::int64_t epoch = 1;     ///< the one to go on with, from 1
  std::int64_t step = 0;      ///< steps of it that are done
  std::int64_t samples = 0;   ///< that they had
  std::int64_t of_epoch = 0;  ///< samples of an epoch; 0: an earlier version has not noted it
  std::int64_t steps = 0;     ///< in all, of whatever batches: it never falls
  std::int64_t samples_a_step = 0;
  double loss_sum =
      0;  ///< whose average over ranks is the sum over those samples; saved, on average
  double train_loss = 0;  ///< of the last whole epoch
  double test_loss = 0;
  std::map<std::string, double> test_metrics;
  std::map<std::string, double> best;  ///< of the metric that the best checkpoint is chosen by
  std::vector<double> scaler;
  std::vector<EpochReport> history;
  double seconds = 0;  ///< that it has taken, until this was saved
};

/// libtorch's generators of what ranks compute on, of those that draw numbers of their own: [ranks,
/// bytes], on every rank. Collective.
torch::Tensor gather_generators(torch::Device device, const Ranks& ranks);

/// As text, and back.
std::string to_text(const RunState& state);
RunState run_state_of(const std::string& text);
RunState run_state_of(const CheckpointMetadata& metadata);

/// What goes into a checkpoint.
CheckpointMetadata to_metadata(const RunState& state, const torch::Tensor& generators,
                               const std::string& configuration);

/// Rank 0's state becomes everybody's. Where as many ranks draw numbers of their own as before, on
/// such a device, each gets its generator back; else generators go on as they are. `metadata` is
/// that of the checkpoint on rank 0, and ignored elsewhere. Collective.
RunState restore(const CheckpointMetadata* metadata, torch::Device device, const Ranks& ranks);

}  // namespace sullae::train
