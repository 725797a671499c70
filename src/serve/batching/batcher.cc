#include "serve/batching/batcher.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "base/request_error.h"

namespace sullae::serve {
namespace {

// Between looks at what has waited for too long.
constexpr std::chrono::milliseconds kShortestWatch{10};
constexpr std::chrono::milliseconds kLongestWatch{1000};

}  // namespace

class Batcher::Impl {
 public:
  Impl(const BatcherOptions& options, Run run) : options_(options), run_(std::move(run)) {}

  void submit(Rows rows, Done done, Admission admission);
  std::int64_t waiting() const;
  void serve();
  void watch();
  void end();

 private:
  struct Work {
    Rows rows;
    Done done;
    Clock::time_point enqueued;
  };
  using Queue = std::deque<Work>;

  bool is_full(const Queue& queue) const;
  std::map<std::uint64_t, Queue>::iterator next_batch();
  Clock::time_point next_change() const;
  std::vector<Work> take(Queue& queue);
  void fail_expired(std::unique_lock<std::mutex>& lock);
  void compute(std::vector<Work> batch) const;
  void compute_one_by_one(std::vector<Work> batch) const;

  BatcherOptions options_;
  Run run_;
  mutable std::mutex mutex_;
  std::condition_variable filled_;
  std::condition_variable ended_;
  std::map<std::uint64_t, Queue> queues_;  // by key, none empty; guarded by mutex_
  std::int64_t waiting_ = 0;               // rows, guarded by mutex_
  bool ending_ = false;                    // guarded by mutex_
};

Batcher::Batcher(const BatcherOptions& options, Run run)
    : impl_(std::make_shared<Impl>(options, std::move(run))), threads_([this] { impl_->end(); }) {
  for (int i = 0; i < options.instances; ++i) threads_.start([impl = impl_] { impl->serve(); });
  threads_.start([impl = impl_] { impl->watch(); });
}

Batcher::~Batcher() = default;

void Batcher::submit(Rows rows, Done done, Admission admission) {
  impl_->submit(std::move(rows), std::move(done), admission);
}
std::int64_t Batcher::waiting() const { return impl_->waiting(); }

void Batcher::Impl::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  filled_.notify_all();
  ended_.notify_all();
}

void Batcher::Impl::submit(Rows rows, Done done, Admission admission) {
  if (rows.count > options_.max_batch_size) {
    refuse(fmt::format("{} rows, expected at most {} in a request", rows.count,
                       options_.max_batch_size));
  }
  {
    const std::lock_guard lock(mutex_);
    // One that is larger than the queue may be has its turn when nothing waits.
    if (admission == Admission::wanted && waiting_ > 0 &&
        waiting_ + rows.count > options_.max_queue_size) {
      throw RequestError(Refusal::overloaded,
                         fmt::format("{} rows wait already, which is as many as may "
                                     "(max_queue_size): try again later",
                                     waiting_));
    }
    waiting_ += rows.count;
    const auto key = rows.key;
    queues_[key].push_back({std::move(rows), std::move(done), Clock::now()});
  }
  filled_.notify_one();
}

std::int64_t Batcher::Impl::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

bool Batcher::Impl::is_full(const Queue& queue) const {
  std::int64_t rows = 0;
  return std::ranges::any_of(queue, [&](const Work& work) {
    rows += work.rows.count;
    return rows >= options_.max_batch_size;
  });
}

// The oldest of those that are full or have waited for long enough.
std::map<std::uint64_t, Batcher::Impl::Queue>::iterator Batcher::Impl::next_batch() {
  const auto due = Clock::now() - options_.max_queue_delay;
  auto next = queues_.end();
  for (auto entry = queues_.begin(); entry != queues_.end(); ++entry) {
    const Queue& queue = entry->second;
    const auto enqueued = queue.front().enqueued;
    if (next != queues_.end() && enqueued >= next->second.front().enqueued) continue;
    if (ending_ || enqueued <= due || is_full(queue)) next = entry;
  }
  return next;
}

// When one has waited for long enough, or for too long.
Clock::time_point Batcher::Impl::next_change() const {
  auto oldest = Clock::time_point::max();
  for (const auto& [key, queue] : queues_) oldest = std::min(oldest, queue.front().enqueued);
  return oldest + std::min<Clock::duration>(options_.max_queue_delay, options_.timeout);
}

std::vector<Batcher::Impl::Work> Batcher::Impl::take(Queue& queue) {
  std::vector<Work> batch;
  std::int64_t rows = 0;
  while (!queue.empty() &&
         (batch.empty() || rows + queue.front().rows.count <= options_.max_batch_size)) {
    rows += queue.front().rows.count;
    batch.push_back(std::move(queue.front()));
    queue.pop_front();
  }
  waiting_ -= rows;
  return batch;
}

// Requests that have waited for too long are answered before others are computed: under overload
// their clients are gone, and computing for them would make the others late too.
void Batcher::Impl::fail_expired(std::unique_lock<std::mutex>& lock) {
  std::vector<Work> expired;
  const auto limit = Clock::now() - options_.timeout;
  for (auto entry = queues_.begin(); entry != queues_.end();) {
    Queue& queue = entry->second;
    while (!queue.empty() && queue.front().enqueued <= limit) {
      waiting_ -= queue.front().rows.count;
      expired.push_back(std::move(queue.front()));
      queue.pop_front();
    }
    entry = queue.empty() ? queues_.erase(entry) : std::next(entry);
  }
  if (expired.empty()) return;
  lock.unlock();
  for (Work& work : expired) {
    work.done({.error = std::make_exception_ptr(
                   RequestError(Refusal::timeout, fmt::format("waited for more than {} ms "
                                                              "(timeout_milliseconds)",
                                                              options_.timeout.count()))),
               .timing = {.queue = Clock::now() - work.enqueued}});
  }
  expired.clear();  // what it holds may be this object's last owner
  lock.lock();
}

void Batcher::Impl::serve() {
  // Requests are many and small: a thread a batch is faster than all threads for each.
  at::get_num_threads();  // initialises this thread's number, which the next line then sets
  if (options_.instances > 1) at::set_num_threads(1);
  std::unique_lock lock(mutex_);
  for (;;) {
    filled_.wait(lock, [&] { return ending_ || !queues_.empty(); });
    fail_expired(lock);
    if (queues_.empty()) {
      if (ending_) return;
      continue;
    }
    const auto next = next_batch();
    if (next == queues_.end()) {
      filled_.wait_until(lock, next_change());
      continue;
    }
    auto batch = take(next->second);
    if (next->second.empty()) queues_.erase(next);
    // Whoever else was told of what is left may have gone back to sleep until this batch's time.
    const bool left = !queues_.empty();
    lock.unlock();
    if (left) filled_.notify_one();
    compute(std::move(batch));
    lock.lock();
  }
}

// For those that wait while all others compute.
void Batcher::Impl::watch() {
  const auto period =
      std::clamp<Clock::duration>(options_.timeout / 4, kShortestWatch, kLongestWatch);
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, period, [this] { return ending_; })) fail_expired(lock);
}

// What is wrong with one request is not the others' fault.
void Batcher::Impl::compute_one_by_one(std::vector<Work> batch) const {
  for (Work& work : batch) {
    std::vector<Work> alone;
    alone.push_back(std::move(work));
    compute(std::move(alone));
  }
}

void Batcher::Impl::compute(std::vector<Work> batch) const {
  const auto start = Clock::now();
  std::vector<const Rows*> rows;
  Timing timing;
  for (const Work& work : batch) {
    rows.push_back(&work.rows);
    timing.batch_rows += work.rows.count;
  }
  std::vector<std::vector<torch::Tensor>> outputs;
  std::exception_ptr error;
  try {
    outputs = run_(rows);
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  if (error && batch.size() > 1) return compute_one_by_one(std::move(batch));
  timing.compute = Clock::now() - start;
  timing.first_of_batch = true;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    timing.queue = start - batch[i].enqueued;
    batch[i].done({.outputs = error ? std::vector<torch::Tensor>() : std::move(outputs[i]),
                   .error = error,
                   .timing = timing});
    timing.first_of_batch = false;
  }
}

}  // namespace sullae::serve
