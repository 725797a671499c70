#include "engine/completion.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "transport/shm/waiting.h"

namespace sullae {
namespace {

// Before it sleeps: what is under way often ends within a microsecond.
constexpr int kPauses = 12;
constexpr int kYields = 4;

}  // namespace

void Completion::wait() const {
  while (!work_for(std::chrono::hours(1))) {
  }
}

bool Completion::work_for(std::chrono::milliseconds limit) const {
  const auto end = std::chrono::steady_clock::now() + limit;
  if (!done()) {
    if (const auto worker = worker_.lock()) worker->work_for(*this, end);
  }
  const auto left = end - std::chrono::steady_clock::now();
  return wait_for(
      std::max(std::chrono::ceil<std::chrono::milliseconds>(left), std::chrono::milliseconds(0)));
}

// Who sleeps has said so before it looks for the last time, and who finishes looks for sleepers after it has said so: one
// of the two sees the other.
bool Completion::wait_for(std::chrono::milliseconds limit) const {
  for (int i = 0; i < kPauses && !done(); ++i) shm::pause_cpu();
  for (int i = 0; i < kYields && !done(); ++i) std::this_thread::yield();
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds(0)) return false;
    ++sleepers_;
    if (!done()) shm::futex_wait(done_, 0, std::chrono::ceil<std::chrono::microseconds>(left));
    --sleepers_;
  }
  if (error_) std::rethrow_exception(error_);
  return true;
}

void Completion::then(Callback callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!done()) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback(error_);
}

void Completion::finish(const std::exception_ptr& error) {
  std::vector<Callback> callbacks;
  {
    const std::lock_guard lock(mutex_);
    error_ = error;
    done_ = 1;
    callbacks = std::move(callbacks_);
  }
  if (sleepers_ != 0) shm::futex_wake_all(done_);
  for (auto& callback : callbacks) callback(error);
}

}  // namespace sullae
