// What UCX calls sent though it has only copied it.
#pragma once

#include <ucp/api/ucp.h>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace sullae::ucx {

/// Where a socket is full, UCX keeps the rest of a small message, calls the message sent, and goes
/// on with it in the worker's next turn. A rank that then computes, or waits in another group,
/// would never give it one, while its peer waits for the message: here a thread does. It is started
/// when there is something left for the first time.
class LingeringSends {
 public:
  LingeringSends() = default;
  ~LingeringSends() { end(); }
  LingeringSends(const LingeringSends&) = delete;
  LingeringSends& operator=(const LingeringSends&) = delete;

  /// The worker is the holder's.
  std::unique_lock<std::mutex> turn() { return std::unique_lock(mutex_); }
  /// In a turn, after messages have been sent: sees to what is left of them.
  void look_after(ucp_worker_h worker);
  /// In a turn, before the worker goes. A flush that does not end soon keeps connections alive:
  /// false then.
  bool forget();
  /// Before that; not in a turn.
  void end();

 private:
  void work();
  bool all_gone();

  std::mutex mutex_;
  std::condition_variable changed_;
  ucp_worker_h worker_ = nullptr;
  void* flush_ = nullptr;  // ends when sockets have everything; null where they have
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace sullae::ucx
