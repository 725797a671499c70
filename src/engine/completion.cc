#include "engine/completion.h"

#include <thread>
#include <utility>

#include "base/interruption.h"
#include "sullae/error.h"
#include "transport/shm/waiting.h"

namespace sullae {
namespace {

// Before it sleeps: what is under way often ends within a microsecond.
constexpr int kPauses = 12;
constexpr int kYields = 4;

}  // namespace

void Completion::wait() const {
  while (!work_for(until_interruption(std::chrono::hours(1)))) check_interruption();
}

bool Completion::work_for(std::chrono::milliseconds limit) const {
  if (!done()) {
    const auto until = Clock::now() + limit;
    if (const auto worker = worker_.lock()) {
      if (!worker->is_here())
        throw InputError("the operation is that of the rank that this process is a fork of");
      worker->work_for(*this, until);
    }
    sleep_until(until);
  }
  return has_ended();
}

bool Completion::wait_for(std::chrono::milliseconds limit) const {
  if (!done()) sleep_until(Clock::now() + limit);
  return has_ended();
}

// Who sleeps has said so before it looks for the last time, and who finishes looks for sleepers
// after it has said so: one of the two sees the other.
void Completion::sleep_until(Clock::time_point until) const {
  for (int i = 0; i < kPauses && !done(); ++i) shm::pause_cpu();
  for (int i = 0; i < kYields && !done(); ++i) std::this_thread::yield();
  while (!done()) {
    const auto left = until - Clock::now();
    if (left <= std::chrono::nanoseconds(0)) return;
    ++sleepers_;
    if (!done()) shm::futex_wait(done_, 0, std::chrono::ceil<std::chrono::microseconds>(left));
    --sleepers_;
  }
}

bool Completion::has_ended() const {
  if (!done()) return false;
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
