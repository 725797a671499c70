#include "callback_threads.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace sullae::python {

struct CallbackThreads::State {
  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::deque<std::function<void()>> posted;
  std::size_t idle = 0;
  std::size_t threads = 0;
  bool ending = false;

  void run();
};

namespace {

// The one whose threads include the calling one.
thread_local const void* this_threads = nullptr;

}  // namespace

void CallbackThreads::State::run() {
  ::pthread_setname_np(::pthread_self(), "sullae-callback");
  this_threads = this;
  std::unique_lock lock(mutex);
  for (;;) {
    ++idle;
    changed.wait(lock, [this] { return ending || !posted.empty(); });
    --idle;
    if (posted.empty()) break;
    {
      const auto callback = std::move(posted.front());
      posted.pop_front();
      lock.unlock();
      callback();
    }
    lock.lock();
  }
  --threads;
  changed.notify_all();
}

CallbackThreads::CallbackThreads() : state_(std::make_shared<State>()) {}

CallbackThreads::~CallbackThreads() {
  const std::lock_guard lock(state_->mutex);
  state_->ending = true;
  state_->changed.notify_all();
}

void CallbackThreads::stop() {
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->changed.notify_all();
  if (this_threads == state_.get()) return;
  state_->changed.wait(lock, [this] { return state_->threads == 0; });
}

void CallbackThreads::post(std::function<void()> callback) {
  const std::lock_guard lock(state_->mutex);
  state_->posted.push_back(std::move(callback));
  if (state_->idle >= state_->posted.size()) {
    state_->changed.notify_one();
    return;
  }
  ++state_->threads;
  std::thread([state = state_] { state->run(); }).detach();
}

}  // namespace sullae::python
