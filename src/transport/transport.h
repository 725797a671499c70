// The seam for what moves messages between two ranks, wherever they are.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "sullae/error.h"
#include "transport/failure.h"

namespace sullae {

/// A message on its way. Made by Transport::send and receive, ended by Transport::wait or abandon.
struct Request {
  void* native = nullptr;  ///< the transport's own; null when done
  int peer = 0;
  std::size_t bytes = 0;
  bool receives = false;
};

/// A message that nobody has asked for yet.
struct Arrival {
  int peer = 0;
  std::size_t bytes = 0;
};

/// A tag: the collective's number (24 bits) and a step within it (16 bits). The upper 24 bits are
/// the transport's.
constexpr std::uint64_t make_tag(std::uint64_t sequence, std::uint64_t step) {
  return (sequence & 0xffffffULL) << 16 | (step & 0xffffULL);
}

/// What another rank has found wrong with the collective that both are in.
class Alarm final : public MismatchError {
 public:
  using MismatchError::MismatchError;
};

/// Tagged messages between the ranks of a group. One thread at a time may call. Two messages with
/// the same tag between the same ranks arrive in the order in which they were sent.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "ucx", …
  virtual std::string name() const = 0;
  /// The name of rank `peer` in the world, for messages.
  virtual int world_rank(int peer) const = 0;

  /// Starts to send; the memory must stay as it is until the request is done or abandoned. Messages
  /// may be empty.
  virtual Request send(int peer, std::uint64_t tag, const void* data, std::size_t bytes) = 0;
  /// Starts to receive a message of exactly `bytes`.
  virtual Request receive(int peer, std::uint64_t tag, void* data, std::size_t bytes) = 0;
  /// Waits until all are done. Throws PeerError when a peer is gone, TimeoutError at the group's
  /// limit, MismatchError when a message has another length than the receiver expects, and when a
  /// peer has raised an alarm what that stands for. After PeerError or TimeoutError the transport
  /// is of no further use.
  virtual void wait(std::span<Request> requests) = 0;
  void wait(Request& request) { wait({&request, 1}); }
  /// True when it is done; else makes some progress. Throws as wait() does, but for the time.
  virtual bool test(Request& request) = 0;
  /// The first message with this tag that waits to be received, from whomever.
  virtual std::optional<Arrival> probe(std::uint64_t tag) = 0;
  /// Lets go of all requests that have not reached their end, after an error: when it returns,
  /// nothing is read from or written to their memory any more.
  virtual void abandon() noexcept = 0;

  /// From here on the death of `peer` is noticed, if it ever is: by gone(), which says why it takes
  /// part no more.
  virtual void watch(int peer) { static_cast<void>(peer); }
  virtual std::optional<std::string> gone(int peer) {
    static_cast<void>(peer);
    return std::nullopt;
  }

  /// For a thread that has nothing to do: where prepare_sleep() is true it may call sleep(), beside
  /// other threads' calls, which returns when something has come, after wake(), or at the limit.
  /// One that cannot tell naps.
  virtual bool prepare_sleep() { return true; }
  virtual void sleep(std::chrono::microseconds limit);
  virtual void wake() noexcept {}

  /// Alarms for the messages to come have this tag, until the next call, and this number, since
  /// tags come again.
  void set_alarm(std::uint64_t tag, std::uint64_t number) {
    alarm_tag_ = tag;
    alarm_number_ = number;
  }
  /// Makes every peer's wait() throw with `text`, now or when it comes to set this alarm tag:
  /// PeerError where `rank`, one of the world's, cannot go on, else Alarm. Throws where some cannot
  /// be told, when the others are.
  void raise_alarm(std::string_view text, std::optional<int> rank);

 protected:
  struct AlarmHead {
    std::uint64_t number = 0;
    std::int64_t rank = -1;  // that cannot go on
  };
  static constexpr std::size_t kAlarmBytes = 1024;
  std::uint64_t alarm_tag() const { return alarm_tag_; }
  /// Throws what a message of kAlarmBytes stands for, unless its number is another.
  void take_alarm(const std::array<char, kAlarmBytes>& message) const;

  // The errors of wait() after which the transport is of no further use. `reason` is the library's
  // own word for what happened.
  [[noreturn]] void fail_peer(int peer, std::string_view reason);
  [[noreturn]] void fail_timeout(const Request& request, const Deadline& deadline);
  /// Throws what has ended the world, if anything has.
  void check_world(const Failure& failure);
  void set_broken(bool broken = true) { broken_ = broken; }
  bool broken() const { return broken_; }
  /// `sent` is how many bytes came, or "more".
  MismatchError other_length(const Request& request, std::string_view sent) const;

 private:
  static constexpr std::uint64_t kNoAlarm = make_tag(0xffffff, 0xfffe);

  std::uint64_t alarm_tag_ = kNoAlarm;
  std::uint64_t alarm_number_ = 0;
  bool broken_ = false;
};

}  // namespace sullae
