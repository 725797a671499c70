// Ends an NCCL communicator whose operations do not end by themselves.
#pragma once

#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/deadline.h"
#include "collective/nccl/cuda.h"
#include "transport/failure.h"

namespace sullae::nccl {

/// Looks from a thread of its own whether the oldest operation on the stream ends within the limit,
/// whether NCCL has found an error, and whether the world has failed: of a peer on the same host
/// NCCL notices nothing. If not, or if so, it aborts the communicator: the kernels return, and
/// whoever uses it next, or asks once they have returned, gets the reason.
class Watchdog {
 public:
  Watchdog(ncclComm_t communicator, std::shared_ptr<Stream> stream, const WaitLimit& timeout,
           std::shared_ptr<const Failure> failure);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// It looks no more. What it has begun is done then: whether it has aborted is known.
  void stop();
  /// Call after each operation was put on the stream.
  void note();
  /// Throws Error once the communicator is aborted.
  void check() const;
  bool aborted() const;
  /// Held while NCCL is called, so that it is not aborted meanwhile.
  std::mutex& mutex() { return calls_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Operation {
    Event end;
    Clock::time_point since;  // put on the stream
  };

  void run();
  void look();
  void abort(const std::string& reason);

  ncclComm_t communicator_;
  std::shared_ptr<Stream> stream_;
  WaitLimit timeout_;
  std::shared_ptr<const Failure> failure_;
  std::mutex calls_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<Operation> operations_;
  Clock::time_point head_since_;  // the oldest is the oldest since then
  std::string reason_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace sullae::nccl
