#include "ps/client/client.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/copy.h"
#include "base/interruption.h"
#include "base/log.h"
#include "ps/client/connect.h"

namespace sullae::ps {
namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds kPoll{100};
// After so long without a word a server is asked whether it has the question, and then less and
// less often.
constexpr std::chrono::milliseconds kFirstRetry{100};
constexpr std::chrono::milliseconds kLongestRetry{1000};
constexpr std::chrono::seconds kWarning{10};
constexpr int kLeaveMilliseconds = 1000;

std::uint64_t new_incarnation() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

}  // namespace

Client::Client(ClientOptions options, const std::vector<int>& on)
    : options_(std::move(options)),
      name_in_use_(fmt::format("{}", fmt::join(options_.servers, ",")), options_.worker,
                   options_.name),
      group_(group_of(options_.name, options_.secret)),
      incarnation_(new_incarnation()),
      context_(1),
      items_(on.size()),
      heartbeat_(context_, options_.servers, header_of(Kind::alive), rests_, step_) {
  for (const std::string& server : options_.servers)
    servers_.push_back({.socket = connect(context_, server, 0), .retry_interval = kFirstRetry});
  for (std::size_t i = 0; i < on.size(); ++i) {
    items_[i].server = static_cast<std::size_t>(on[i]);
    servers_[items_[i].server].items.push_back(static_cast<std::uint32_t>(i));
  }
  for (std::size_t i = 0; turns_.size() < on.size(); ++i) {
    for (const Server& server : servers_) {
      if (i < server.items.size()) turns_.push_back(server.items[i]);
    }
  }
}

Client::~Client() {
  for (Server& server : servers_) {
    server.socket.set(zmq::sockopt::linger, kLeaveMilliseconds);
    try {
      const bool fails = std::uncaught_exceptions() > exceptions_;
      send_message(server.socket, header_of(fails ? Kind::fail : Kind::leave),
                   message_of(options_.name));
    } catch (const zmq::error_t& error) {
      log::warning("leaving a parameter server: {}", error.what());
    }
  }
}

Header Client::header_of(Kind kind) const {
  return {.kind = kind,
          .worker = options_.worker,
          .group = group_,
          .incarnation = incarnation_,
          .step = step_};
}

void Client::greet_all() {
  for (Server& server : servers_) greet(server);
  wait("a parameter server's welcome");
}

void Client::greet(Server& server) {
  json said = description(server.items);
  said["secret"] = options_.secret;
  said["group"] = options_.name;
  server.greeted = false;
  server.last_activity = Clock::now();
  send_message(server.socket, header_of(Kind::hello), message_of(said.dump()));
}

void Client::give_first_values() {
  for (Server& server : servers_) give_first_values(server);
}

void Client::give_first_values(Server& server) {
  if (!std::exchange(server.needs_values, false)) return;
  for (const auto item : server.items) send_first_values(header_of(item, Kind::first));
}

void Client::pull_all() {
  rests_ = false;
  ask_all(Request::values, "the servers' values");
  step_ = next_step_;
}

void Client::rest() {
  ask_all(Request::rest, "leave to rest");
  rests_ = true;
}

void Client::push_ahead(std::uint32_t item, double learning_rate) {
  check_whole();
  learning_rate_ = learning_rate;
  if (!std::exchange(is_pushing_, true)) ++last_request_id_;
  items_[item].request = Request::push;
  items_[item].request_id = last_request_id_;
  send_first(item);
}

void Client::push_all(double learning_rate) {
  for (const auto item : turns_) {
    if (!has_pushed(item)) push_ahead(item, learning_rate);
  }
  is_pushing_ = false;
  wait("the values to go on with");
  step_ = next_step_;
}

void Client::ask(Request what, std::span<const std::uint32_t> items, const char* for_what) {
  check_whole();
  if (is_pushing_)
    throw InputError(
        fmt::format("worker {} asks for {} in the midst of a step, whose gradients were sent: "
                    "expected step() first",
                    options_.worker, for_what));
  ++last_request_id_;
  for (const auto item : items) {
    items_[item].request = what;
    items_[item].request_id = last_request_id_;
    send_first(item);
  }
  wait(for_what);
}

bool Client::answered(const Server& server) const {
  return server.greeted &&
         std::ranges::none_of(server.items, [&](auto item) { return items_[item].is_asked(); });
}

// What was asked may be asked again; of a step some servers may have taken their gradients, and
// others not.
void Client::wait(const char* for_what) {
  try {
    wait_for_answers(for_what);
  } catch (...) {
    for (Item& item : items_) {
      if (std::exchange(item.request, Request::nothing) == Request::push) is_torn_ = true;
    }
    throw;
  }
}

void Client::check_whole() const {
  if (is_torn_)
    throw Error(
        fmt::format("worker {}: an earlier step has not come to its end, and some servers may have "
                    "taken its gradients: "
                    "make the optimizer anew",
                    options_.worker));
}

void Client::wait_for_answers(const char* for_what) {
  const Deadline deadline(options_.timeout, "SULLAE_TIMEOUT");
  const auto began = Clock::now();
  bool warned = false;
  std::vector<zmq::pollitem_t> polled;
  for (Server& server : servers_) {
    server.waits_for = -1;
    server.retry_interval = kFirstRetry;
    polled.push_back({server.socket.handle(), 0, ZMQ_POLLIN, 0});
  }
  const auto has_answered = [&](const Server& server) {
    return answered(server);
  };
  while (!std::ranges::all_of(servers_, has_answered)) {
    if (deadline.passed()) fail(deadline, for_what);
    check_interruption();
    wait_for(polled.data(), polled.size(), std::min(kPoll, deadline.remaining()));
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      while (receive(i)) {
      }
      resend_if_late(servers_[i]);
    }
    if (warned || Clock::now() - began < kWarning) continue;
    warned = true;
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      if (!answered(servers_[i]))
        log::warning("worker {} has waited 10 s for {}, from {}", options_.worker, for_what,
                     describe(i));
    }
  }
}

Header Client::header_of(std::uint32_t item, Kind kind) const {
  Header header = header_of(kind);
  header.item = item;
  header.learning_rate = learning_rate_;
  header.question = items_[item].request_id;
  return header;
}

void Client::send_first(std::uint32_t item) {
  switch (items_[item].request) {
    case Request::nothing:
      return;
    case Request::values:
      return send(header_of(item, Kind::pull));
    case Request::rest:
      return send(header_of(item, Kind::rest));
    case Request::push:
      return send_push(header_of(item, Kind::push), Attempt::first);
    case Request::rows:
      return send_request(header_of(item, Kind::look_up));
    case Request::state:
      return send_request(header_of(item, Kind::pull_state));
    case Request::store:
      return send_request(header_of(item, Kind::put_state));
    case Request::clear:
      return send_request(header_of(item, Kind::clear));
  }
}

// Of a gradient it is asked first whether it was taken.
void Client::resend(std::uint32_t item) {
  if (items_[item].request == Request::push) return send(header_of(item, Kind::query));
  send_first(item);
}

void Client::resend_if_late(Server& server) {
  if (answered(server) || Clock::now() - server.last_activity < server.retry_interval) return;
  server.retry_interval = std::min(server.retry_interval * 2, kLongestRetry);
  if (!server.greeted) return greet(server);
  for (const auto item : server.items) resend(item);
}

std::string Client::name_of(std::size_t server) const {
  return fmt::format("parameter server {} ({})", server, options_.servers[server]);
}

std::string Client::describe(std::size_t server) const {
  const int other = servers_[server].waits_for;
  return name_of(server) + (other < 0 ? "" : fmt::format(" (it waits for worker {})", other));
}

void Client::fail(const Deadline& deadline, const char* for_what) const {
  std::string names;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    if (!answered(servers_[i])) names += (names.empty() ? "" : " and ") + describe(i);
  }
  throw TimeoutError(fmt::format("worker {} waited for {} from {}, which did not come {}",
                                 options_.worker, for_what, names, deadline.describe()));
}

}  // namespace sullae::ps
