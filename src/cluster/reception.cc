#include "cluster/reception.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/system_error.h"
#include "transport/store/lease.h"

namespace sullae::cluster {
namespace {

constexpr std::size_t kMostHello = 65536;
constexpr std::chrono::seconds kHelloLimit{10};

UniqueFd listen_anywhere() {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  if (!socket || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0)
    throw system_error("a port for workers");
  return socket;
}

}  // namespace

Reception::Reception() : listener_(listen_anywhere()) {}

int Reception::port() const {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw system_error("getsockname");
  return ntohs(address.sin_port);
}

void Reception::poll_for(std::vector<pollfd>& polled) const {
  polled.push_back({listener_.get(), POLLIN, 0});
  for (const Stranger& stranger : strangers_)
    polled.push_back({stranger.caller.socket.get(), POLLIN, 0});
}

std::vector<Reception::Caller> Reception::turn(const std::vector<pollfd>& polled,
                                               std::size_t first) {
  std::vector<Caller> callers;
  for (std::size_t i = 0; i < strangers_.size(); ++i) {
    Caller& stranger = strangers_[i].caller;
    if (polled[first + 1 + i].revents == 0) continue;
    hear(stranger);
    if (stranger.line.ends_with('\n')) callers.push_back(std::move(stranger));
  }
  std::erase_if(strangers_, [](const Stranger& stranger) {
    return !stranger.caller.socket || stranger.deadline.passed();
  });
  if (polled[first].revents != 0) take();
  return callers;
}

void Reception::take() {
  UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) {
    // Without descriptors it would be asked for as fast as a processor can.
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
      std::this_thread::sleep_for(std::chrono::milliseconds{100});
    return;
  }
  watch_connection(socket.get());
  strangers_.push_back({.caller = {.socket = std::move(socket), .line = {}},
                        .deadline = Deadline(kHelloLimit, "the limit for a worker's first word")});
}

void Reception::hear(Caller& stranger) {
  std::array<char, 4096> buffer;
  const auto n = ::recv(stranger.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n <= 0 || stranger.line.size() > kMostHello) return stranger.socket.reset();
  stranger.line.append(buffer.data(), static_cast<std::size_t>(n));
}

}  // namespace sullae::cluster
