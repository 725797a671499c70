// Dynamic batching: requests that wait at the same time are computed together.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "base/thread_group.h"
#include "serve/model/codec.h"

namespace sullae::serve {

using Clock = std::chrono::steady_clock;

/// How long the parts of a request took.
struct Timing {
  Clock::duration queue{};
  Clock::duration compute{};
  std::int64_t batch_rows = 0;
  /// Whether this request is the one that its batch is counted by.
  bool first_of_batch = false;
};

struct BatcherOptions {
  std::int64_t max_batch_size = 64;
  std::chrono::microseconds max_queue_delay{0};
  std::int64_t max_queue_size = 1024;
  std::chrono::milliseconds timeout{10000};
  int instances = 1;
};

/// A queue and the threads that empty it. Rows of equal keys make batches; of those that are full
/// or whose first request has waited for max_queue_delay, the one with the oldest request is next.
/// Any thread may call submit().
class Batcher {
 public:
  /// A request's part of the network's output, or why there is none.
  struct Outcome {
    std::vector<torch::Tensor> outputs;
    std::exception_ptr error;
    Timing timing;
  };
  /// Called once, in a thread of the batcher; must not throw.
  using Done = std::function<void(Outcome)>;
  /// Computes requests together, in any of the batcher's threads.
  using Run =
      std::function<std::vector<std::vector<torch::Tensor>>(const std::vector<const Rows*>&)>;

  Batcher(const BatcherOptions& options, Run run);
  /// Answers what waits still, and ends. May be called in one of its own threads, by what `done`
  /// owns.
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  /// Throws RequestError: invalid for more rows than a batch has, and overloaded where the queue is
  /// full, unless it is a part of what was let in before.
  enum class Admission { wanted, given };
  void submit(Rows rows, Done done, Admission admission = Admission::wanted);
  /// Rows that wait.
  std::int64_t waiting() const;

 private:
  class Impl;
  // Also its threads': the last request that uses this object can be answered in one of them.
  std::shared_ptr<Impl> impl_;
  ThreadGroup threads_;
};

}  // namespace sullae::serve
