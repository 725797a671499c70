#include "c10d_work.h"

#include <utility>

#include "sullae/error.h"

namespace sullae::python {
namespace {

using Future = c10::ivalue::Future;

void complete(Future& future, const std::vector<at::Tensor>& results,
              const std::exception_ptr& error) {
  if (error) {
    future.setErrorIfNeeded(error);
  } else {
    future.markCompleted(c10::IValue(results));
  }
}

}  // namespace

C10dWork::C10dWork(int rank, c10d::OpType type, std::vector<at::Tensor> results, Handle handle,
                   std::shared_ptr<void> kept, std::chrono::milliseconds limit,
                   std::shared_ptr<CallbackThreads> threads)
    : c10d::Work(rank, type),
      handle_(std::move(handle)),
      results_(std::move(results)),
      kept_(std::move(kept)),
      limit_(limit),
      threads_(std::move(threads)) {}

bool C10dWork::isSuccess() const { return handle_.done() && !exception(); }

std::exception_ptr C10dWork::exception() const {
  if (!handle_.done()) return nullptr;
  try {
    handle_.wait();
  } catch (...) {  // whatever the operation threw
    return std::current_exception();
  }
  return nullptr;
}

bool C10dWork::wait(std::chrono::milliseconds timeout) {
  if (timeout == kNoTimeout) timeout = limit_;
  if (timeout == kNoTimeout) {
    handle_.wait();
  } else if (!handle_.wait_for(timeout)) {
    throw TimeoutError("Work.wait: the operation was not done within " +
                       std::to_string(timeout.count()) + " ms, which the call named");
  }
  return true;
}

c10::intrusive_ptr<Future> C10dWork::getFuture() {
  const std::lock_guard lock(mutex_);
  if (future_) return future_;
  future_ = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()));
  if (handle_.done()) {
    complete(*future_, results_, exception());
    return future_;
  }
  // Not this object, whose last reference may be Python's: to let it go takes the interpreter's
  // lock.
  handle_.then([future = future_, results = results_, kept = kept_,
                threads = threads_](const std::exception_ptr& error) mutable {
    threads->post([future = std::move(future), results = std::move(results), kept = std::move(kept),
                   error] { complete(*future, results, error); });
  });
  return future_;
}

}  // namespace sullae::python
