#include "engine/background_queue.h"

#include <pthread.h>

#include "base/log.h"

namespace sullae {

BackgroundQueue::BackgroundQueue(int rank)
    : thread_([this, rank] {
        ::pthread_setname_np(::pthread_self(), "sullae-engine");
        log::set_rank(rank);
        run();
      }) {}

BackgroundQueue::~BackgroundQueue() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void BackgroundQueue::submit(std::function<void()> operation,
                             std::shared_ptr<Completion> completion) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({std::move(operation), std::move(completion)});
  changed_.notify_one();
}

void BackgroundQueue::run() {
  for (;;) {
    Entry entry;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !entries_.empty(); });
      if (entries_.empty()) return;
      entry = std::move(entries_.front());
      entries_.pop_front();
    }
    std::exception_ptr error;
    try {
      entry.operation();
    } catch (...) {
      error = std::current_exception();  // rethrown where the user waits
    }
    entry.completion->finish(error);
  }
}

}  // namespace sullae
