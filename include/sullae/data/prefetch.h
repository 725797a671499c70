// Batches that worker threads fill ahead of those who use them.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace sullae::data {

struct PrefetchOptions {
  /// Threads that fill batches; 0 fills them in next().
  std::size_t workers = 2;
  /// Batches that are filled or being filled while another is used, at most.
  std::size_t depth = 4;
  /// The longest that next() waits for workers; what it fills itself takes as long as it takes.
  std::chrono::seconds timeout{600};
};

namespace detail {

/// Runs fill(batch, slot) for every slot of batches 0, 1, … in worker threads, `depth` batches
/// ahead of the one that is waited for.
class OrderedWorkers {
 public:
  struct Calls {
    std::function<std::size_t(std::size_t batch)> begin;            ///< returns its number of slots
    std::function<void(std::size_t batch, std::size_t slot)> fill;  ///< from any thread
  };
  OrderedWorkers(std::size_t batches, Calls calls, PrefetchOptions options);
  ~OrderedWorkers();
  OrderedWorkers(const OrderedWorkers&) = delete;
  OrderedWorkers& operator=(const OrderedWorkers&) = delete;
  /// Returns when all of `batch` is filled. Batches must be waited for in order. Throws what the
  /// first of its slots that failed threw.
  void wait(std::size_t batch);
  double seconds_waited() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace detail

/// Fills batches of type `Batch` in order, in worker threads. Used by one thread.
template <class Batch>
class Prefetcher {
 public:
  struct Calls {
    /// Makes batch `index`, with room for its samples, and says how many it has. Called in order.
    std::function<std::pair<Batch, std::size_t>(std::size_t index)> make;
    /// Puts a sample into slot `slot` of batch `index`. Called by several threads at once.
    std::function<void(Batch& batch, std::size_t index, std::size_t slot)> fill;
  };

  Prefetcher(std::size_t batches, Calls calls, PrefetchOptions options = {})
      : batches_(batches),
        calls_(std::move(calls)),
        ring_(options.depth + 1),
        slots_(std::make_unique<std::optional<Batch>[]>(ring_)),
        workers_(batches,
                 {.begin =
                      [this](std::size_t index) {
                        auto [batch, samples] = calls_.make(index);
                        slots_[index % ring_] = std::move(batch);
                        return samples;
                      },
                  .fill =
                      [this](std::size_t index, std::size_t slot) {
                        calls_.fill(*slots_[index % ring_], index, slot);
                      }},
                 options) {}

  /// The next batch; empty after the last. Throws what filling it threw.
  std::optional<Batch> next() {
    if (next_ == batches_) return std::nullopt;
    workers_.wait(next_);
    return std::exchange(slots_[next_++ % ring_], std::nullopt);
  }

  /// Time that next() has spent waiting.
  double seconds_waited() const { return workers_.seconds_waited(); }

 private:
  std::size_t batches_;
  Calls calls_;
  std::size_t ring_;
  std::unique_ptr<std::optional<Batch>[]> slots_;
  std::size_t next_ = 0;
  detail::OrderedWorkers workers_;  // last: its threads use what is above
};

}  // namespace sullae::data
