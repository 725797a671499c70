// The course of the learning rate.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "train/options.h"

namespace sullae::train {

/// The learning rate of a step, from 0.
using Schedule = std::function<double(std::int64_t step)>;

/// Linear warm-up from `warmup_lr`, and then from `lr` what `lr_schedule` names:
/// constant, linear, cosine, polynomial, step. Throws InputError.
Schedule make_schedule(const TrainOptions& options, std::int64_t steps_per_epoch);

std::vector<std::string> schedule_names();

}  // namespace sullae::train
