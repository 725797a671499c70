#include "callback_threads.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/own_process.h"

namespace sullae::python {

using Callback = std::function<void()>;

struct CallbackThreads::State {
  OwnProcess process;  // a fork has none of the threads
  std::mutex mutex;    // guards all below
  std::condition_variable changed;
  std::deque<Callback> posted;
  std::size_t idle = 0;
  std::size_t threads = 0;
  bool ending = false;
  bool dropping = false;

  void run();
};

namespace {

// What holds objects of Python's and will not be called must not be destroyed either, which would
// take the interpreter's lock.
void leak(Callback callback) { new Callback(std::move(callback)); }

// The one whose threads include the calling one.
thread_local const void* this_threads = nullptr;

struct States {
  std::mutex mutex;  // guards the next
  std::vector<std::weak_ptr<CallbackThreads::State>> states;
};

// Outlives all that may ask it.
States& all_states() {
  static auto* const states = new States;
  return *states;
}

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
      const Callback callback = std::move(posted.front());
      posted.pop_front();
      lock.unlock();
      callback();
    }
    lock.lock();
  }
  --threads;
  changed.notify_all();
}

CallbackThreads::CallbackThreads() : state_(std::make_shared<State>()) {
  const std::lock_guard lock(all_states().mutex);
  auto& states = all_states().states;
  std::erase_if(states, [](const auto& state) { return state.expired(); });
  states.push_back(state_);
}

void CallbackThreads::end_all(std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  const std::lock_guard all_lock(all_states().mutex);
  for (const auto& weak : all_states().states) {
    const auto state = weak.lock();
    if (!state || !state->process.is_here()) continue;
    std::unique_lock lock(state->mutex);
    state->ending = true;
    state->dropping = true;
    for (Callback& callback : state->posted) leak(std::move(callback));
    state->posted.clear();
    state->changed.notify_all();
    state->changed.wait_until(lock, until, [&] { return state->threads == 0; });
  }
}

CallbackThreads::~CallbackThreads() {
  if (!state_->process.is_here()) return;
  const std::lock_guard lock(state_->mutex);
  state_->ending = true;
  state_->changed.notify_all();
}

void CallbackThreads::stop() {
  if (!state_->process.is_here()) return;
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->changed.notify_all();
  if (this_threads == state_.get()) return;
  // What did not come to its end when the interpreter did, never will.
  state_->changed.wait(lock, [this] { return state_->threads == 0 || state_->dropping; });
}

void CallbackThreads::post(std::function<void()> callback) {
  const std::lock_guard lock(state_->mutex);
  if (state_->dropping) {
    leak(std::move(callback));
    return;
  }
  state_->posted.push_back(std::move(callback));
  if (state_->idle >= state_->posted.size()) {
    state_->changed.notify_one();
    return;
  }
  ++state_->threads;
  std::thread([state = state_] { state->run(); }).detach();
}

}  // namespace sullae::python
