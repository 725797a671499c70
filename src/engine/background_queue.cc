#include "engine/background_queue.h"

#include <pthread.h>

#include "base/interruption.h"
#include "base/log.h"
#include "base/own_thread.h"
#include "sullae/error.h"

namespace sullae {

BackgroundQueue::BackgroundQueue(int rank)
    : thread_([this, rank] {
        ::pthread_setname_np(::pthread_self(), "sullae-engine");
        in_own_thread = true;
        log::set_rank(rank);
        work();
      }) {}

BackgroundQueue::~BackgroundQueue() { stop(); }

void BackgroundQueue::stop() {
  const std::lock_guard one(stopping_);
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void BackgroundQueue::submit(std::function<void()> operation,
                             std::shared_ptr<Completion> completion) {
  {
    const std::lock_guard lock(mutex_);
    if (!ending_) {
      completion->let_work(weak_from_this());
      entries_.push_back({std::move(operation), std::move(completion)});
      if (prompt_waits_.submitted(/*alone=*/entries_.size() == 1)) changed_.notify_one();
      return;
    }
  }
  completion->finish(std::make_exception_ptr(Error("this rank has left the world")));
}

void BackgroundQueue::run(std::function<void()> operation, const std::function<void()>& withdrawn) {
  bool now = false;
  {
    const std::lock_guard lock(mutex_);
    now = !ending_ && !busy_ && entries_.empty();
    if (now) busy_ = true;
  }
  if (!now) {
    const auto completion = std::make_shared<Completion>();
    submit(std::move(operation), completion);
    try {
      return completion->wait();
    } catch (...) {  // rethrown: what the operation threw, or an interruption of the wait alone
      if (withdraw(*completion) && withdrawn) withdrawn();
      throw;
    }
  }
  const LentThread lent;
  try {
    operation();
  } catch (...) {  // a user's operation may throw anything
    end_turn();
    throw;
  }
  end_turn();
}

// Its caller's memory goes when this returns. True where it had not begun.
bool BackgroundQueue::withdraw(const Completion& completion) {
  {
    const std::lock_guard lock(mutex_);
    const auto is_it = [&](const Entry& entry) {
      return entry.completion.get() == &completion;
    };
    if (std::erase_if(entries_, is_it) > 0) return true;
  }
  const Interruptible by_nothing(nullptr);
  try {
    completion.wait();
  } catch (...) {  // its own error: what ended the wait is thrown
  }
  return false;
}

BackgroundQueue::Entry BackgroundQueue::take() {
  Entry entry = std::move(entries_.front());
  entries_.pop_front();
  busy_ = true;
  return entry;
}

void BackgroundQueue::end_turn() {
  const std::lock_guard lock(mutex_);
  busy_ = false;
  if (ending_ || !entries_.empty()) changed_.notify_all();
}

void BackgroundQueue::perform(Entry& entry) {
  std::exception_ptr error;
  try {
    entry.operation();
  } catch (...) {
    error = std::current_exception();  // rethrown where the user waits
  }
  // Before anybody hears of it: whoever keeps what the operation holds, too, is the last, and lets
  // it go in a thread of its own.
  entry.operation = nullptr;
  end_turn();
  entry.completion->finish(error);
}

// In the queue's thread, with `lock` held; false when none comes any more.
bool BackgroundQueue::await_entry(std::unique_lock<std::mutex>& lock) {
  const auto ready = [this] {
    return !busy_ && (!entries_.empty() || (ending_ && working_ == 0));
  };
  while (!ready()) {
    if (!prompt_waits_.expected()) {
      changed_.wait(lock);
    } else if (changed_.wait_for(lock, PromptWaits::kLookPeriod) == std::cv_status::timeout) {
      prompt_waits_.forget();
    }
  }
  return !entries_.empty();
}

void BackgroundQueue::work() {
  for (;;) {
    Entry entry;
    {
      std::unique_lock lock(mutex_);
      if (!await_entry(lock)) return;
      entry = take();
    }
    perform(entry);
  }
}

void BackgroundQueue::work_for(const Completion& completion, Clock::time_point until) {
  const LentThread lent;
  std::unique_lock lock(mutex_);
  ++working_;
  if (!busy_ && entries_.size() == 1 && prompt_waits_.waited()) changed_.notify_all();
  while (!busy_ && !entries_.empty() && !completion.done() && Clock::now() < until) {
    Entry entry = take();
    lock.unlock();
    perform(entry);
    lock.lock();
  }
  --working_;
  if (ending_) changed_.notify_all();
}

}  // namespace sullae
