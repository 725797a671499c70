#include "sullae/data/prefetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>

#include "base/log.h"
#include "base/thread_group.h"
#include "sullae/error.h"

namespace sullae::data::detail {

class OrderedWorkers::Impl {
 public:
  Impl(std::size_t batches, Calls calls, PrefetchOptions options)
      : batches_(batches), calls_(std::move(calls)), options_(options) {
    options_.depth = std::max<std::size_t>(options_.depth, 1);
    for (std::size_t i = 0; i < options_.workers; ++i) threads_.start([this] { work(); });
  }

  void wait(std::size_t batch) {
    std::unique_lock lock(mutex_);
    wanted_ = batch;
    may_fill_.notify_all();
    const auto start = std::chrono::steady_clock::now();
    if (options_.workers == 0) fill_here(lock, batch);
    const bool filled = is_filled_.wait_for(lock, options_.timeout, [&] {
      const auto found = open_.find(batch);
      return found != open_.end() && found->second.left == 0;
    });
    waited_ += std::chrono::steady_clock::now() - start;
    if (!filled) {
      const auto message = fmt::format(
          "batch {} was not filled within {} s (the timeout of prefetching): the disk, "
          "or a file system behind a network, does not answer",
          batch, options_.timeout.count());
      // Now, since whoever takes the exception first waits for the thread that waits for the disk.
      log::warning("{}", message);
      throw TimeoutError(message);
    }
    const auto failure = open_.at(batch).failure;
    open_.erase(batch);
    if (failure) std::rethrow_exception(failure);
  }

  double seconds_waited() const { return std::chrono::duration<double>(waited_).count(); }

 private:
  void end() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    may_fill_.notify_all();
  }

  struct OpenBatch {
    std::size_t slots = 0;
    std::size_t taken = 0;
    std::size_t left = 0;  // not filled yet
    std::exception_ptr failure;
    std::size_t failed_slot = 0;
  };

  void work() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      if (!fill_some(lock)) may_fill_.wait(lock);
    }
  }

  // Returns whether there was something to do.
  bool fill_some(std::unique_lock<std::mutex>& lock) {
    auto batch = std::ranges::find_if(
        open_, [](const auto& entry) { return entry.second.taken < entry.second.slots; });
    if (batch == open_.end()) {
      if (begun_ == batches_ || begun_ > wanted_ + options_.depth - 1) return false;
      batch = begin();
      if (batch->second.slots == 0) return true;
    }
    take(lock, batch->first, batch->second);
    return true;
  }

  std::map<std::size_t, OpenBatch>::iterator begin() {
    OpenBatch open;
    try {
      open.slots = open.left = calls_.begin(begun_);
    } catch (...) {
      open.failure = std::current_exception();
    }
    const auto batch = open_.emplace(begun_++, open).first;
    if (open.slots == 0) is_filled_.notify_all();
    return batch;
  }

  // Several slots at a time where there are many, since they may be quick to fill.
  void take(std::unique_lock<std::mutex>& lock, std::size_t index, OpenBatch& batch) {
    const std::size_t first = batch.taken;
    const std::size_t share =
        std::max<std::size_t>(1, batch.slots / (4 * std::max<std::size_t>(options_.workers, 1)));
    const std::size_t count = std::min(share, batch.slots - first);
    batch.taken += count;
    lock.unlock();
    std::exception_ptr failure;
    std::size_t slot = first;
    try {
      for (; slot < first + count; ++slot) calls_.fill(index, slot);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure && (!batch.failure || slot < batch.failed_slot)) {
      batch.failure = failure;
      batch.failed_slot = slot;
    }
    batch.left -= count;
    if (batch.left == 0) is_filled_.notify_all();
  }

  void fill_here(std::unique_lock<std::mutex>& lock, std::size_t batch) {
    while (begun_ <= batch || open_.at(batch).left > 0) {
      if (!fill_some(lock)) return;
    }
  }

  const std::size_t batches_;
  const Calls calls_;
  PrefetchOptions options_;

  std::mutex mutex_;  // guards all below
  std::condition_variable may_fill_;
  std::condition_variable is_filled_;
  std::map<std::size_t, OpenBatch> open_;  // nodes stay where they are while others come and go
  std::size_t begun_ = 0;
  std::size_t wanted_ = 0;
  bool stopping_ = false;
  std::chrono::steady_clock::duration waited_{};

  ThreadGroup threads_{[this] {
    end();
  }};
};

OrderedWorkers::OrderedWorkers(std::size_t batches, Calls calls, PrefetchOptions options)
    : impl_(std::make_unique<Impl>(batches, std::move(calls), options)) {}
OrderedWorkers::~OrderedWorkers() = default;
void OrderedWorkers::wait(std::size_t batch) { impl_->wait(batch); }
double OrderedWorkers::seconds_waited() const { return impl_->seconds_waited(); }

}  // namespace sullae::data::detail
