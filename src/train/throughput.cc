#include "train/throughput.h"

#include <cmath>

namespace sullae::train {
namespace {

// After these, steps count for 1/e.
constexpr double kRecentSeconds = 30;

}  // namespace

void Throughput::Steps::fade(double factor) {
  for (double* amount : {&seconds, &samples, &waiting_for_data, &waiting_for_ranks, &count})
    *amount *= factor;
}

void Throughput::Steps::add(const Steps& others) {
  seconds += others.seconds;
  samples += others.samples;
  waiting_for_data += others.waiting_for_data;
  waiting_for_ranks += others.waiting_for_ranks;
  count += others.count;
}

void Throughput::step(std::size_t samples, double waiting_for_data, double waiting_for_ranks) {
  const auto now = Clock::now();
  if (running_) {
    const Steps step{.seconds = std::chrono::duration<double>(now - last_).count(),
                     .samples = static_cast<double>(samples),
                     .waiting_for_data = waiting_for_data - last_data_,
                     .waiting_for_ranks = waiting_for_ranks - last_ranks_,
                     .count = 1};
    recent_.fade(std::exp(-step.seconds / kRecentSeconds));
    for (Steps* steps : {&recent_, &epoch_, &all_}) steps->add(step);
  }
  running_ = true;
  last_ = now;
  last_data_ = waiting_for_data;
  last_ranks_ = waiting_for_ranks;
}

void Throughput::pause() { running_ = false; }

}  // namespace sullae::train
