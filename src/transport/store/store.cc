#include "transport/store/store.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <thread>

#include "base/environment.h"
#include "base/interruption.h"
#include "base/system_error.h"
#include "transport/store/lease.h"
#include "transport/store/peer_user.h"
#include "transport/store/protocol.h"

namespace sullae {
namespace {

using store_protocol::RequestHeader;

// Waits until the socket is ready for `events`; false at the deadline.
bool wait_ready(int fd, short events, const Deadline& deadline) {
  for (;;) {
    pollfd polled{fd, events, 0};
    const auto limit = until_interruption(deadline.remaining());
    constexpr std::int64_t kMost = std::numeric_limits<int>::max();
    const int n =
        ::poll(&polled, 1, static_cast<int>(std::min<std::int64_t>(limit.count(), kMost)));
    if (n > 0) return true;
    if (n == 0 && deadline.passed()) return false;
    if (n < 0 && errno != EINTR) throw system_error("poll");
    check_interruption();
  }
}

// An address that swallows what is sent to it must not take the time of the next one.
constexpr std::chrono::milliseconds kConnectLimit{3000};

UniqueFd try_connect(const ResolvedAddress& resolved, const Deadline& whole) {
  const Deadline deadline(std::min(whole.remaining(), kConnectLimit), "the limit of an attempt");
  UniqueFd fd(::socket(resolved.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fd;
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&resolved.storage), resolved.length) !=
      0) {
    if (errno != EINPROGRESS) return {};
    if (!wait_ready(fd.get(), POLLOUT, deadline)) {
      errno = ETIMEDOUT;
      return {};
    }
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) {
      errno = error;
      return {};
    }
  }
  const int yes = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return fd;
}

}  // namespace

Store::Store(const StoreAddress& address, const Deadline& deadline, std::string prefix,
             std::string_view secret)
    : address_(address.to_string()), prefix_(std::move(prefix)) {
  std::string failure = "no answer";
  // The rank that serves may start later than this one, and its name may not be known yet.
  for (std::chrono::milliseconds pause{5}; !fd_;
       pause = std::min(pause * 2, std::chrono::milliseconds{500})) {
    try {
      for (const auto& resolved : resolve(address)) {
        errno = ETIMEDOUT;
        fd_ = try_connect(resolved, deadline);
        if (fd_) break;
        failure = std::strerror(errno);
      }
    } catch (const Error& error) {
      failure = error.what();
    }
    if (fd_) break;
    if (deadline.passed()) {
      throw TimeoutError(
          fmt::format("no rendezvous store answered at {} {}; the last attempt said: {}", address_,
                      deadline.describe(), failure));
    }
    std::this_thread::sleep_for(std::min(pause, deadline.remaining()));
    check_interruption();
  }
  // The names of abstract sockets can be guessed, and taken by anybody on this machine.
  if (address.is_unix() && !is_own_or_root(peer_user(fd_.get())))
    throw Error(fmt::format("the rendezvous store at {} is another user's ({})", address_,
                            peer_user(fd_.get())));
  send_all(fmt::format("{}{}\n", store_protocol::kGreeting, secret), deadline);
}

void Store::set(std::string_view key, std::string_view value, const Deadline& deadline) {
  request(static_cast<char>(store_protocol::Command::set), key, value, deadline);
}

std::string Store::get(std::string_view key, const Deadline& deadline) {
  return request(static_cast<char>(store_protocol::Command::get), key, "", deadline);
}

// Not under the mutex, which the call that waits has: the socket stays this object's until its end.
void Store::cancel() const { ::shutdown(fd_.get(), SHUT_RDWR); }

void Store::watch() const { watch_connection(fd_.get()); }

long long Store::add(std::string_view key, long long delta, const Deadline& deadline) {
  const auto value = request(static_cast<char>(store_protocol::Command::add), key,
                             std::to_string(delta), deadline);
  return parse_integer(value, "the store's reply", INT64_MIN, INT64_MAX);
}

std::string Store::request(char command, std::string_view name, std::string_view value,
                           const Deadline& deadline) {
  const std::string key = prefix_ + std::string(name);
  if (key.size() > store_protocol::kMaxKeyBytes || value.size() > store_protocol::kMaxValueBytes)
    throw InputError(fmt::format(
        "the rendezvous store: a key of {} and a value of {} bytes: expected at most {} and {}",
        key.size(), value.size(), store_protocol::kMaxKeyBytes, store_protocol::kMaxValueBytes));
  const std::lock_guard lock(mutex_);
  const RequestHeader header{static_cast<store_protocol::Command>(command),
                             static_cast<std::uint32_t>(key.size()),
                             static_cast<std::uint32_t>(value.size())};
  std::string message(reinterpret_cast<const char*>(&header), sizeof header);
  message.append(key).append(value);
  send_all(message, deadline);
  std::uint32_t length = 0;
  receive_all(reinterpret_cast<char*>(&length), sizeof length, deadline);
  if (length > store_protocol::kMaxValueBytes) {
    cancel();
    throw Error(fmt::format("{} does not speak the rendezvous store's protocol", address_));
  }
  std::string reply(length, '\0');
  receive_all(reply.data(), length, deadline);
  return reply;
}

void Store::await(short events, const Deadline& deadline) const {
  try {
    if (wait_ready(fd_.get(), events, deadline)) return;
    throw TimeoutError(
        fmt::format("the rendezvous store at {} did not answer {}", address_, deadline.describe()));
  } catch (...) {
    cancel();  // a late reply would be taken for the next request's
    throw;
  }
}

void Store::send_all(std::string_view bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const auto n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      await(POLLOUT, deadline);
    } else if (errno != EINTR) {
      throw system_error("the rendezvous store at {} is gone", address_);
    }
  }
}

void Store::receive_all(char* into, std::size_t bytes, const Deadline& deadline) {
  while (bytes > 0) {
    const auto n = ::recv(fd_.get(), into, bytes, 0);
    if (n > 0) {
      into += n;
      bytes -= static_cast<std::size_t>(n);
    } else if (n == 0) {
      cancel();
      throw Error(
          fmt::format("the rendezvous store at {} closed the connection: the rank or the launcher "
                      "that served it ended, the program there is not a Sullae store, or it serves "
                      "another job (SULLAE_JOB_SECRET differs)",
                      address_));
    } else if (errno == EAGAIN) {
      await(POLLIN, deadline);
    } else if (errno != EINTR) {
      throw system_error("the rendezvous store at {} is gone", address_);
    }
  }
}

}  // namespace sullae
