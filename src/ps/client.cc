#include "ps/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/copy.h"
#include "base/log.h"
#include "ps/connect.h"

namespace sullae::ps {
namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds kPoll{100};
// After so long without a word a server is asked whether it has the question, and then less and less often.
constexpr std::chrono::milliseconds kPatience{100};
constexpr std::chrono::milliseconds kMostPatience{1000};
constexpr std::chrono::seconds kWarning{10};
constexpr int kLeaveMilliseconds = 1000;

std::uint64_t new_incarnation() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

template <class T>
zmq::message_t copy_of(const std::vector<T>& values) {
  return {values.data(), values.size() * sizeof(T)};
}

}  // namespace

Client::Client(ClientOptions options, std::vector<Slice> slices, const Rule& rule)
    : options_(std::move(options)),
      slices_(std::move(slices)),
      rule_(rule),
      incarnation_(new_incarnation()),
      context_(1),
      states_(slices_.size()),
      heartbeat_(context_, options_.servers,
                 {.kind = Kind::alive, .worker = options_.worker, .incarnation = incarnation_},
                 rests_) {
  for (const std::string& server : options_.servers)
    servers_.push_back({.socket = connect(context_, server, 0), .patience = kPatience});
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    servers_[static_cast<std::size_t>(slices_[i].server)].slices.push_back(
        static_cast<std::uint32_t>(i));
    const std::vector<float> zeros(slices_[i].elements());
    states_[i].values = copy_of(zeros);
    states_[i].gradient = std::make_shared<std::vector<float>>(slices_[i].elements());
    states_[i].present.resize(slices_[i].ranges.size());
  }
  for (ServerState& server : servers_) greet(server);
  wait("a parameter server's welcome");
}

Client::~Client() {
  for (ServerState& server : servers_) {
    server.socket.set(zmq::sockopt::linger, kLeaveMilliseconds);
    try {
      send(server, {.kind = Kind::leave});
    } catch (const zmq::error_t& error) {
      log::warning("leaving a parameter server: {}", error.what());
    }
  }
}

void Client::start() {
  for (ServerState& server : servers_) {
    if (server.needs_values) give_first_values(server);
  }
  pull();
}

void Client::pull() {
  rests_ = false;
  ask_all(Asked::values, "the servers' values");
}
void Client::rest() {
  ask_all(Asked::rest, "leave to rest");
  rests_ = true;
}
void Client::pull_state() { ask_all(Asked::state, "the optimizer's state"); }
void Client::put_state() { ask_all(Asked::store, "the optimizer's state to be stored"); }

void Client::push_pull(double learning_rate) {
  learning_rate_ = learning_rate;
  ask_all(Asked::push, "the values to go on with");
}

void Client::ask_all(Asked what, const char* for_what) {
  ++questions_;
  // One slice of each server in turn, so that all have work.
  for (std::size_t i = 0, left = servers_.size(); left > 0; ++i) {
    left = 0;
    for (ServerState& server : servers_) {
      if (i >= server.slices.size()) continue;
      ++left;
      states_[server.slices[i]].asked = what;
      states_[server.slices[i]].question = questions_;
      ask(server, server.slices[i], false);
    }
  }
  wait(for_what);
}

void Client::give_first_values(ServerState& server) {
  server.needs_values = false;
  for (const auto slice : server.slices)
    send(server, {.kind = Kind::first, .slice = slice},
         {states_[slice].values.data(), states_[slice].values.size()});
}

void Client::greet(ServerState& server) {
  json said{{"secret", options_.secret}, {"rule", to_json(rule_)}, {"slices", json::array()}};
  for (const auto slice : server.slices) {
    json ranges = json::array();
    for (const Range& range : slices_[slice].ranges) ranges.push_back(range.elements());
    said["slices"].push_back({{"id", slice}, {"ranges", ranges}});
  }
  server.greeted = false;
  send(server, {.kind = Kind::hello}, message_of(said.dump()));
}

bool Client::answered(const ServerState& server) const {
  return server.greeted && std::ranges::all_of(server.slices, [&](auto slice) {
           return states_[slice].asked == Asked::nothing;
         });
}

void Client::wait(const char* for_what) {
  const Deadline deadline(options_.timeout, "SULLAE_TIMEOUT");
  const auto began = Clock::now();
  bool warned = false;
  std::vector<zmq::pollitem_t> items;
  for (ServerState& server : servers_) {
    server.waits_for = -1;
    server.patience = kPatience;
    items.push_back({server.socket.handle(), 0, ZMQ_POLLIN, 0});
  }
  const auto has_answered = [&](const ServerState& server) {
    return answered(server);
  };
  while (!std::ranges::all_of(servers_, has_answered)) {
    if (deadline.passed()) fail(deadline, for_what);
    wait_for(items.data(), items.size(), std::min(kPoll, deadline.remaining()));
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      while (receive(i)) {
      }
      ask_again(servers_[i]);
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

void Client::ask(ServerState& server, std::uint32_t slice, bool again) {
  SliceState& state = states_[slice];
  switch (state.asked) {
    case Asked::nothing:
      return;
    case Asked::values:
      return send(server, {.kind = Kind::pull, .slice = slice, .question = state.question});
    case Asked::rest:
      return send(server, {.kind = Kind::rest, .slice = slice, .question = state.question});
    case Asked::state:
      return send(server, {.kind = Kind::pull_state, .slice = slice, .question = state.question});
    case Asked::store:
      return send(server, {.kind = Kind::put_state, .slice = slice, .question = state.question},
                  copy_of(state.state));
    case Asked::push:
      if (again)
        return send(server, {.kind = Kind::query, .slice = slice, .question = state.question});
      return send_gradient(server, slice, false);
  }
}

void Client::ask_again(ServerState& server) {
  if (answered(server) || Clock::now() - server.spoken < server.patience) return;
  server.patience = std::min(server.patience * 2, kMostPatience);
  if (!server.greeted) return greet(server);
  for (const auto slice : server.slices) {
    if (states_[slice].asked != Asked::nothing) ask(server, slice, true);
  }
}

bool Client::receive(std::size_t number) {
  ServerState& server = servers_[number];
  zmq::message_t head;
  if (!server.socket.recv(head, zmq::recv_flags::dontwait)) return false;
  server.spoken = Clock::now();
  zmq::message_t part;
  for (bool more = head.more(); more; more = part.more())
    static_cast<void>(server.socket.recv(part));
  Header header;
  if (head.size() != sizeof header)
    throw Error(name_of(number) + " answers what no parameter server answers");
  copy_bytes(&header, head.data(), sizeof header);
  switch (header.kind) {
    case Kind::welcome:
      welcome(server, json::parse(part.to_string_view()));
      break;
    case Kind::values:
      take_values(header, part);
      break;
    case Kind::state:
    case Kind::stored:
    case Kind::resting:
      take_state(header, part);
      break;
    case Kind::waiting:
      server.waits_for = header.worker;
      break;
    case Kind::again:
      if (states_.at(header.slice).asked == Asked::push &&
          states_[header.slice].question == header.question)
        send_gradient(server, header.slice, true);
      break;
    case Kind::unknown:
      if (server.greeted) greet(server);
      break;
    case Kind::refused:
      throw InputError(fmt::format("{} refuses worker {}: {}", name_of(number), options_.worker,
                                   part.to_string()));
    default:
      throw Error(name_of(number) + " answers what no parameter server answers");
  }
  return true;
}

// A server that has been away has taken as much as it remembers.
void Client::welcome(ServerState& server, const json& said) {
  server.greeted = true;
  staleness_bound_ = said.at("staleness").get<int>();
  server.needs_values = said.at("needs").get<bool>();
  for (const json& pair : said.at("taken")) {
    SliceState& state = states_.at(pair.at(0).get<std::uint32_t>());
    state.taken = pair.at(1).get<std::uint64_t>() >= state.question;
  }
  const auto is_asked = [&](auto slice) {
    return states_[slice].asked != Asked::nothing;
  };
  if (std::ranges::none_of(server.slices, is_asked)) return;
  if (server.needs_values) give_first_values(server);
  for (const auto slice : server.slices) {
    if (states_[slice].asked == Asked::push && !states_[slice].taken)
      send_gradient(server, slice, true);
    else
      ask(server, slice, true);
  }
}

void Client::take_values(const Header& header, zmq::message_t& values) {
  SliceState& state = states_.at(header.slice);
  // Answers may come twice, and late.
  const bool is_asked_for = state.asked == Asked::values || state.asked == Asked::push;
  if (!is_asked_for || header.question != state.question) return;
  if (values.size() != state.values.size())
    throw Error(fmt::format("a parameter server gives {} bytes of a slice that has {}",
                            values.size(), state.values.size()));
  if (is_aligned(values))
    state.values = std::move(values);
  else
    copy_bytes(state.values.data(), values.data(), values.size());
  if (state.asked == Asked::push) {
    ++delays_.slices;
    delays_.leads += header.lead;
    delays_.most_lead = std::max(delays_.most_lead, header.lead);
    delays_.updates += header.updates;
    delays_.most_updates = std::max(delays_.most_updates, header.updates);
  }
  state.asked = Asked::nothing;
}

void Client::take_state(const Header& header, const zmq::message_t& part) {
  SliceState& state = states_.at(header.slice);
  const Asked asked = header.kind == Kind::state    ? Asked::state
                      : header.kind == Kind::stored ? Asked::store
                                                    : Asked::rest;
  if (state.asked != asked || header.question != state.question) return;
  const auto bytes = span_of<std::byte>(part);
  if (header.kind == Kind::state) state.state.assign(bytes.begin(), bytes.end());
  state.asked = Asked::nothing;
}

void Client::send_gradient(ServerState& server, std::uint32_t slice, bool again) {
  SliceState& state = states_[slice];
  const Header header{.kind = Kind::push,
                      .worker = options_.worker,
                      .slice = slice,
                      .incarnation = incarnation_,
                      .learning_rate = learning_rate_,
                      .question = state.question};
  server.spoken = Clock::now();
  server.socket.send(message_of(header), zmq::send_flags::sndmore);
  server.socket.send(copy_of(state.present), zmq::send_flags::sndmore);
  // What is sent again may still be on its way when the step ends, and the next changes the gradient.
  server.socket.send(again ? copy_of(*state.gradient) : message_on(state.gradient),
                     zmq::send_flags::none);
}

void Client::send(ServerState& server, Header header) {
  header.worker = options_.worker;
  header.incarnation = incarnation_;
  server.spoken = Clock::now();
  server.socket.send(message_of(header), zmq::send_flags::none);
}

void Client::send(ServerState& server, Header header, zmq::message_t part) {
  header.worker = options_.worker;
  header.incarnation = incarnation_;
  server.spoken = Clock::now();
  server.socket.send(message_of(header), zmq::send_flags::sndmore);
  server.socket.send(part, zmq::send_flags::none);
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
