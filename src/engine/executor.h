// Runs what the ranks have agreed on.
#pragma once

#include <exception>
#include <functional>
#include <utility>
#include <vector>

#include "engine/fused_allreduce.h"
#include "engine/negotiation/negotiator.h"
#include "sullae/communicator.h"

namespace sullae::engine {

/// Used by one thread at a time.
class Executor {
 public:
  /// `ends` is told what ends the engine, before anybody who waits is.
  Executor(Communicator& communicator, Timeline& timeline, std::size_t fusion_threshold,
           std::function<void(const std::exception_ptr&)> ends)
      : communicator_(communicator),
        timeline_(timeline),
        fused_(communicator, timeline, fusion_threshold),
        ends_(std::move(ends)) {}

  /// Runs and completes each. Allreduces of one kind run first and together. A mismatch ends one
  /// operation. After any other error, of a rank that is gone or of a user's compression, what has
  /// not run is completed with it, and it is thrown, too.
  void run(std::vector<Agreed> agreed);
  /// At most what the fusion buffer holds.
  void set_fusion_threshold(std::size_t bytes) { fused_.set_threshold(bytes); }

 private:
  void run_allreduces(std::vector<Agreed>& all, std::size_t first);
  void run_one(const Agreed& one);
  void run_compressed(const Agreed& one);

  Communicator& communicator_;
  Timeline& timeline_;
  FusedAllreduce fused_;
  std::function<void(const std::exception_ptr&)> ends_;
};

}  // namespace sullae::engine
