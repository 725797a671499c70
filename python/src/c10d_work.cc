#include "c10d_work.h"

#include <utility>

#include "sullae/error.h"

namespace sullae::python {

C10dWork::C10dWork(int rank, c10d::OpType type, std::vector<at::Tensor> results)
    : c10d::Work(rank, type),
      results_(std::move(results)),
      future_(
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {
}

void C10dWork::follow(const Handle& handle) {
  handle_ = handle;
  // Not this object, whose last reference may be Python's: to let it go takes the interpreter's lock.
  handle.then([future = future_, results = results_](const std::exception_ptr& error) {
    if (error) {
      future->setErrorIfNeeded(error);
    } else {
      future->markCompleted(c10::IValue(results));
    }
  });
}

bool C10dWork::isSuccess() const { return handle_.done() && !exception(); }

std::exception_ptr C10dWork::exception() const {
  if (!handle_.done()) return nullptr;
  try {
    handle_.wait();
  } catch (const Error&) {
    return std::current_exception();
  }
  return nullptr;
}

bool C10dWork::wait(std::chrono::milliseconds timeout) {
  if (timeout == kNoTimeout) {
    handle_.wait();
  } else if (!handle_.wait_for(timeout)) {
    throw TimeoutError("Work.wait: the operation was not done within " +
                       std::to_string(timeout.count()) + " ms, which the call named");
  }
  return true;
}

}  // namespace sullae::python
