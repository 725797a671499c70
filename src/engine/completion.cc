#include "engine/completion.h"

#include <utility>

namespace sullae {

void Completion::wait() const {
  done_.wait(0);
  if (error_) std::rethrow_exception(error_);
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
  done_.notify_all();
  for (auto& callback : callbacks) callback(error);
}

}  // namespace sullae
