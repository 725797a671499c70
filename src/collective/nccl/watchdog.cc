#include "collective/nccl/watchdog.h"

#include <algorithm>

#include "base/deadline.h"

namespace sullae::nccl {
namespace {

constexpr std::chrono::milliseconds kPeriod{100};

}  // namespace

Watchdog::Watchdog(ncclComm_t communicator, std::shared_ptr<Stream> stream,
                   const WaitLimit& timeout, std::shared_ptr<const Failure> failure)
    : communicator_(communicator),
      stream_(std::move(stream)),
      timeout_(timeout),
      failure_(std::move(failure)),
      thread_([this] { run(); }) {}

Watchdog::~Watchdog() { stop(); }

void Watchdog::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Watchdog::note() {
  Operation operation{{}, Clock::now()};
  operation.end.record(stream_->handle());
  const std::lock_guard lock(mutex_);
  if (operations_.empty()) head_since_ = operation.since;
  operations_.push_back(std::move(operation));
  changed_.notify_all();
}

void Watchdog::check() const {
  const std::lock_guard lock(mutex_);
  if (!reason_.empty()) throw Error(reason_);
}

bool Watchdog::aborted() const {
  const std::lock_guard lock(mutex_);
  return !reason_.empty();
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    // Nothing to look at: nothing to wake for.
    changed_.wait(lock, [this] { return stopping_ || !operations_.empty(); });
    changed_.wait_for(lock, kPeriod, [this] { return stopping_; });
    if (stopping_ || !reason_.empty()) return;
    lock.unlock();
    try {
      const OnDevice on(stream_->device());
      if (failure_ != nullptr) failure_->check();
      look();
    } catch (const std::exception& error) {
      abort(error.what());
    } catch (...) {  // what ended the world may be anything of the user's
      abort("the world has failed");
    }
    lock.lock();
  }
}

void Watchdog::look() {
  ncclResult_t state = ncclSuccess;
  {
    const std::lock_guard calling(calls_);
    ncclCommGetAsyncError(communicator_, &state);
  }
  if (state != ncclSuccess && state != ncclInProgress) {
    return abort(
        fmt::format("NCCL: {} ({})", ncclGetErrorString(state), ncclGetLastError(communicator_)));
  }
  const auto now = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    while (!operations_.empty() && operations_.front().end.passed()) {
      operations_.pop_front();
      head_since_ = now;
    }
    if (operations_.empty() || now - head_since_ < timeout_.time) return;
  }
  abort(fmt::format("NCCL: an operation did not end {}: some rank did not take part",
                    Deadline(timeout_).describe()));
}

void Watchdog::abort(const std::string& reason) {
  const std::lock_guard calling(calls_);
  {
    // Before the kernels return: whoever waits for them finds it.
    const std::lock_guard lock(mutex_);
    reason_ = reason;
  }
  ncclCommAbort(communicator_);
}

}  // namespace sullae::nccl
