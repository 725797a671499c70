// Memory for what clients send, bounded over all connections.
#pragma once

#include <atomic>
#include <cstddef>

namespace sullae::http {

/// What a client is told for whose request there is no room now.
inline constexpr const char* kNoMemoryLeft =
    "requests of all clients take as much memory as they may (--max-inflight-megabytes): try again "
    "later";

/// Bytes that may be in use at a time. Any thread.
class Budget {
 public:
  explicit Budget(std::size_t bytes) : limit_(bytes) {}

  std::size_t limit() const { return limit_; }
  std::size_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  friend class Reservation;
  bool take(std::size_t bytes) {
    std::size_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes));
    return true;
  }
  void give_back(std::size_t bytes) { used_ -= bytes; }

  std::size_t limit_;
  std::atomic<std::size_t> used_ = 0;  // never above limit_
};

/// A request's part of a budget, until it is destroyed. One thread at a time.
class Reservation {
 public:
  explicit Reservation(Budget& budget) : budget_(budget) {}
  ~Reservation() { budget_.give_back(bytes_); }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  /// False where there is no room for so many in all; what was reserved stays.
  bool grow_to(std::size_t bytes) {
    if (bytes <= bytes_) return true;
    if (!budget_.take(bytes - bytes_)) return false;
    bytes_ = bytes;
    return true;
  }
  std::size_t bytes() const { return bytes_; }
  const Budget& budget() const { return budget_; }

 private:
  Budget& budget_;
  std::size_t bytes_ = 0;
};

}  // namespace sullae::http
