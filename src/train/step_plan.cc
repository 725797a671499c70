#include "train/step_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "sullae/data/order.h"
#include "sullae/error.h"

namespace sullae::train {

StepPlan::StepPlan(std::size_t size, const TrainOptions& options, int rank, int ranks,
                   Position begun)
    : size_(size),
      batch_(static_cast<std::size_t>(options.batch_size)),
      parts_(static_cast<std::size_t>(options.accumulation_steps) *
             static_cast<std::size_t>(options.scale_up)),
      rank_(static_cast<std::size_t>(rank)),
      ranks_(static_cast<std::size_t>(ranks)),
      begun_(begun),
      seed_(options.seed),
      shuffle_buffer_(static_cast<std::size_t>(options.shuffle_buffer)) {
  // Where ranks wait for each other within a step, for their norms, each must have as many parts as
  // the others.
  const std::size_t rest = size_ - static_cast<std::size_t>(begun.samples);
  const std::size_t left = rest % batch_;
  const bool too_few = options.sync_batch_norm && left < ranks_ * parts_;
  steps_ = begun.step + static_cast<std::int64_t>(rest / batch_ + (left > 0 && !too_few ? 1 : 0));
  if (too_few && steps_ == 0 && begun.samples == 0)
    throw InputError(fmt::format("--sync-batch-norm: {} samples, expected at least {} for {} ranks",
                                 size_, ranks_ * parts_, ranks_));
}

std::size_t StepPlan::first_of(std::int64_t step) const {
  return static_cast<std::size_t>(begun_.samples) +
         static_cast<std::size_t>(step - begun_.step) * batch_;
}

std::size_t StepPlan::samples_in(std::int64_t step) const {
  return std::min(batch_, size_ - first_of(step));
}

std::pair<std::size_t, std::size_t> StepPlan::part_of(std::int64_t step) const {
  const std::size_t count = samples_in(step);
  return {count * rank_ / ranks_, count * (rank_ + 1) / ranks_};
}

std::size_t StepPlan::parts_in(std::int64_t step) const {
  const auto [first, last] = part_of(step);
  return std::min(parts_, last - first);
}

// The last rank has as many samples as any.
std::size_t StepPlan::most_parts_in(std::int64_t step) const {
  return std::min(parts_, (samples_in(step) + ranks_ - 1) / ranks_);
}

BatchPlan StepPlan::of_epoch(std::size_t epoch, std::int64_t first_step) const {
  const auto order =
      data::epoch_order(size_, {.seed = seed_, .shuffle_buffer = shuffle_buffer_}, epoch);
  BatchPlan plan;
  for (std::int64_t step = first_step; step < steps_; ++step) {
    const auto [first, last] = part_of(step);
    const std::size_t begin = first_of(step) + first;
    const std::size_t parts = parts_in(step);
    const auto at = [&](std::size_t part) {
      return order.begin() + static_cast<std::ptrdiff_t>(begin + (last - first) * part / parts);
    };
    for (std::size_t part = 0; part < parts; ++part) plan.emplace_back(at(part), at(part + 1));
  }
  return plan;
}

}  // namespace sullae::train
