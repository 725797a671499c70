#include "transport/ucx/lingering_sends.h"

#include <pthread.h>

#include <chrono>
#include <utility>

#include "base/own_thread.h"

namespace sullae::ucx {
namespace {

constexpr std::chrono::microseconds kLingeringNap{50};
// Of one to peers that are gone.
constexpr std::chrono::milliseconds kFlushLimit{100};

}  // namespace

void LingeringSends::look_after(ucp_worker_h worker) {
  worker_ = worker;
  if (all_gone()) return;
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  changed_.notify_one();
}

bool LingeringSends::forget() {
  const auto limit = std::chrono::steady_clock::now() + kFlushLimit;
  const auto is_under_way = [this] {
    return flush_ != nullptr && ucp_request_check_status(flush_) == UCS_INPROGRESS;
  };
  while (is_under_way() && std::chrono::steady_clock::now() < limit) {
    if (ucp_worker_progress(worker_) == 0) std::this_thread::sleep_for(kLingeringNap);
  }
  const bool has_ended = !is_under_way();
  if (flush_ != nullptr) ucp_request_free(std::exchange(flush_, nullptr));
  return has_ended;
}

void LingeringSends::end() {
  {
    const auto lock = turn();
    ending_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void LingeringSends::work() {
  ::pthread_setname_np(::pthread_self(), "sullae-sends");
  in_own_thread = true;
  auto lock = turn();
  while (!ending_) {
    if (flush_ == nullptr) {
      changed_.wait(lock);
      continue;
    }
    // What came in may be what another thread sleeps for.
    if (ucp_worker_progress(worker_) != 0) ucp_worker_signal(worker_);
    if (all_gone()) continue;
    lock.unlock();
    std::this_thread::sleep_for(kLingeringNap);
    lock.lock();
  }
}

// Messages may have been sent since the flush began: a new one tells.
bool LingeringSends::all_gone() {
  if (flush_ != nullptr) {
    if (ucp_request_check_status(flush_) == UCS_INPROGRESS) return false;
    ucp_request_free(std::exchange(flush_, nullptr));
  }
  const ucp_request_param_t params{};
  void* const flush = ucp_worker_flush_nbx(worker_, &params);
  if (UCS_PTR_IS_PTR(flush)) flush_ = flush;
  return flush_ == nullptr;
}

}  // namespace sullae::ucx
