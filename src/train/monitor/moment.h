// How a training run stands, for whatever shows it.
#pragma once

#include <cstdint>

namespace sullae::train {

struct Moment {
  int epoch = 0;
  int epochs = 0;
  std::int64_t step = 0;  ///< of the epoch, from 1
  std::int64_t steps_per_epoch = 0;
  std::int64_t total_steps = 0;  ///< since the training began
  double loss = 0;
  double lr = 0;
  double samples_per_second = 0;  ///< of all ranks together
  double seconds_left = 0;        ///< of the training; 0 where not known yet
  double waiting_for_data = 0;    ///< part of this rank's time, from 0 to 1
  double waiting_for_ranks = 0;
  double loss_scale = 1;
  std::int64_t skipped_steps = 0;
  std::int64_t damaged_records = 0;
  double test_loss = 0;  ///< the last ones measured
  double test_accuracy = 0;
};

}  // namespace sullae::train
