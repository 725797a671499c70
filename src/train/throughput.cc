#include "train/throughput.h"

namespace sullae::train {

void Throughput::step(std::size_t samples, double waiting_for_data, double waiting_for_ranks) {
  const auto now = Clock::now();
  if (running_) {
    seconds_ += std::chrono::duration<double>(now - last_).count();
    data_ += waiting_for_data - last_data_;
    communication_ += waiting_for_ranks - last_ranks_;
    samples_ += samples;
    ++steps_;
  }
  running_ = true;
  last_ = now;
  last_data_ = waiting_for_data;
  last_ranks_ = waiting_for_ranks;
}

void Throughput::pause() { running_ = false; }

}  // namespace sullae::train
