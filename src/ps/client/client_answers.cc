// What servers answer.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/copy.h"
#include "ps/client/client.h"

namespace sullae::ps {

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
      return welcome(number, nlohmann::json::parse(parts.at(0).to_string_view()));
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
void Client::welcome(std::size_t number, const nlohmann::json& said) {
  Server& server = servers_[number];
  server.greeted = true;
  staleness_bound_ = said.at("staleness").get<int>();
  server.needs_values = said.at("needs").get<bool>();
  next_step_ = std::max(next_step_, said.at("step").get<std::int64_t>());
  const auto before = std::exchange(server.group, said.at("group").get<std::string>());
  if (!before.empty() && before != server.group) lost(number);
  for (const nlohmann::json& pair : said.at("taken")) {
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

}  // namespace sullae::ps
