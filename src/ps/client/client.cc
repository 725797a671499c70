#include "ps/client/client.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/copy.h"
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

void Client::wait(const char* for_what) {
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

bool Client::receive(std::size_t number) {
  Server& server = servers_[number];
  zmq::message_t head;
  if (!server.socket.recv(head, zmq::recv_flags::dontwait)) return false;
  server.last_activity = Clock::now();
  std::vector<zmq::message_t> parts;
  for (bool more = head.more(); more; more = parts.back().more()) {
    parts.emplace_back();
    static_cast<void>(server.socket.recv(parts.back()));
  }
  Header header;
  if (head.size() != sizeof header)
    throw Error(name_of(number) + " answers what no parameter server answers");
  copy_bytes(&header, head.data(), sizeof header);
  handle(number, header, parts);
  return true;
}

void Client::handle(std::size_t number, const Header& header, std::vector<zmq::message_t>& parts) {
  Server& server = servers_[number];
  switch (header.kind) {
    case Kind::welcome:
      return welcome(number, json::parse(parts.at(0).to_string_view()));
    case Kind::values:
    case Kind::state:
    case Kind::stored:
    case Kind::resting:
      return take_answer(header, parts);
    case Kind::waiting:
      server.waits_for = header.worker;
      return;
    case Kind::again: {
      const Item& item = items_.at(header.item);
      if (item.request == Request::push && item.request_id == header.question)
        send_push(header_of(header.item, Kind::push), Attempt::again);
      return;
    }
    case Kind::unknown:
      if (server.greeted) greet(server);
      return;
    case Kind::refused:
      throw InputError(fmt::format("{} refuses worker {}: {}", name_of(number), options_.worker,
                                   parts.at(0).to_string()));
    default:
      throw Error(name_of(number) + " answers what no parameter server answers");
  }
}

// A server that has been away has taken as much as it remembers.
void Client::welcome(std::size_t number, const json& said) {
  Server& server = servers_[number];
  server.greeted = true;
  staleness_bound_ = said.at("staleness").get<int>();
  server.needs_values = said.at("needs").get<bool>();
  next_step_ = std::max(next_step_, said.at("step").get<std::int64_t>());
  const auto before = std::exchange(server.group, said.at("group").get<std::string>());
  if (!before.empty() && before != server.group) lost(number);
  for (const json& pair : said.at("taken")) {
    Item& item = items_.at(pair.at(0).get<std::uint32_t>());
    item.taken = pair.at(1).get<std::uint64_t>() >= item.request_id;
  }
  if (std::ranges::none_of(items_, &Item::is_asked)) step_ = next_step_;
  if (answered(server)) return;
  give_first_values(server);
  for (const auto item : server.items) {
    const bool is_lost = items_[item].request == Request::push && !items_[item].taken;
    is_lost ? send_push(header_of(item, Kind::push), Attempt::again) : resend(item);
  }
}

void Client::take_answer(const Header& header, std::vector<zmq::message_t>& parts) {
  Item& item = items_.at(header.item);
  // Answers may come twice, and late.
  const auto fits = [&] {
    switch (header.kind) {
      case Kind::values:
        return item.request == Request::values || item.request == Request::push ||
               item.request == Request::rows;
      case Kind::state:
        return item.request == Request::state;
      case Kind::stored:
        return item.request == Request::store || item.request == Request::clear;
      default:
        return item.request == Request::rest;
    }
  };
  if (header.question != item.request_id || !fits()) return;
  const bool is_at_a_step = item.request == Request::values || item.request == Request::push;
  if (is_at_a_step) next_step_ = std::max(next_step_, header.step);
  if (item.request == Request::push) {
    ++delays_.items;
    delays_.leads += header.lead;
    delays_.most_lead = std::max(delays_.most_lead, header.lead);
    delays_.updates += header.updates;
    delays_.most_updates = std::max(delays_.most_updates, header.updates);
  }
  take(header.item, std::exchange(item.request, Request::nothing), parts);
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
