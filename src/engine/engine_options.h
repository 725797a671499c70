// What an engine is told.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/environment.h"
#include "engine/autotune/autotuner.h"
#include "engine/set_watch.h"
#include "transport/failure.h"
#include "transport/settings.h"

namespace sullae::engine {

struct EngineOptions {
  /// SULLAE_CYCLE_TIME (milliseconds): the longest that a rank which has operations under way, but
  /// nothing to submit, keeps the others waiting, and that operations gather which nobody waits
  /// for. A rank that waits for nothing looks up every 10 ms.
  std::chrono::microseconds cycle_time{1000};
  /// SULLAE_FUSION_THRESHOLD (bytes): small tensors are reduced together up to this size.
  std::size_t fusion_threshold = std::size_t{64} << 20;
  /// SULLAE_CACHE_CAPACITY: the number of operations whose negotiation is remembered.
  std::size_t cache_capacity = 1024;
  /// SULLAE_STALL_WARNING, as for every wait.
  std::chrono::milliseconds stall_warning{10000};
  /// SULLAE_STALL_TIMEOUT (seconds, 0 for never): after this time an operation that some ranks have
  /// submitted and others have not fails on every rank. SULLAE_TIMEOUT where it is not set.
  std::chrono::milliseconds stall_timeout{600000};
  /// SULLAE_AUTOTUNE and those that begin so.
  AutotuneOptions autotune;
  /// What all sets of this process share, and this one's name there; the world's engine, whose name
  /// is empty, tells the other ranks. Null compares nothing.
  std::shared_ptr<SetWatch> set_watch;
  std::string set;
  /// Of the world: what ends the engine is put here, on every rank. Never null.
  std::shared_ptr<Failure> failure = std::make_shared<Failure>();
  /// Called after every cycle, by the thread that has had the engine's turn; may be empty.
  std::function<void()> each_cycle;
  /// Called once, by the engine's thread, when it ends; may be empty.
  std::function<void()> at_end;
  /// Every rank has joined, of whom none has been told yet; may be empty.
  std::function<void()> all_joined;

  /// What the environment says; the rest is for the world to fill.
  static EngineOptions from(const Environment& environment, const WaitSettings& waits);
  /// Of that, what is the same on all ranks of a world: lines of NAME=VALUE.
  std::string of_all_ranks() const;
};

}  // namespace sullae::engine
