#include "engine/completion.h"

#include <utility>

namespace sullae {

bool Completion::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

void Completion::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_; });
  if (error_) std::rethrow_exception(error_);
}

void Completion::then(Callback callback) {
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    if (!done_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
    error = error_;
  }
  callback(std::move(error));
}

void Completion::finish(const std::exception_ptr& error) {
  std::vector<Callback> callbacks;
  {
    const std::lock_guard lock(mutex_);
    error_ = error;
    done_ = true;
    callbacks = std::move(callbacks_);
    changed_.notify_all();
  }
  for (auto& callback : callbacks) callback(error);
}

}  // namespace sullae
