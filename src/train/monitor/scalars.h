// The curves of a run, under the tags that TensorBoard's pages and Sullae's show.
#pragma once

#include <map>
#include <string>

#include "sullae/train/observer.h"

namespace sullae::train {

inline std::map<std::string, double> scalars_of(const Moment& m) {
  return {{"train/loss", m.loss},
          {"train/learning_rate", m.lr},
          {"train/loss_scale", m.loss_scale},
          {"throughput/samples_per_second", m.samples_per_second},
          {"throughput/waiting_for_data", m.waiting_for_data},
          {"throughput/waiting_for_ranks", m.waiting_for_ranks}};
}

inline std::map<std::string, double> scalars_of(const EpochReport& epoch, bool tested) {
  std::map<std::string, double> scalars = {{"train/epoch_loss", epoch.train_loss}};
  if (tested) scalars["test/loss"] = epoch.test_loss;
  for (const auto& [name, value] : epoch.test_metrics) scalars["test/" + name] = value;
  return scalars;
}

/// Whether a moment is one of each `interval` steps, or an epoch's last.
inline bool is_due(const Moment& m, int interval) {
  return m.total_steps % interval == 0 || m.step == m.steps_per_epoch;
}

}  // namespace sullae::train
