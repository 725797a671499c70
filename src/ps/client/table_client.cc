#include "ps/client/table_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/copy.h"
#include "sullae/error.h"

namespace sullae::ps {
namespace {

using nlohmann::json;

// One item a server.
std::vector<int> one_each(std::size_t servers) {
  std::vector<int> items(servers);
  std::iota(items.begin(), items.end(), 0);
  return items;
}

}  // namespace

TableClient::TableClient(ClientOptions options, const TableShape& shape, const Rule& rule)
    : Client(options, one_each(options.servers.size())),
      shape_(shape),
      rule_(rule),
      width_(dimension() * (1 + arrays_of(rule))),
      parts_(options.servers.size()) {
  shape_.servers = parts_.size();
  greet_all();
}

json TableClient::description(std::span<const std::uint32_t> items) const {
  json table = to_json(shape_);
  table["id"] = items.front();
  return {{"rule", to_json(rule_)}, {"table", table}};
}

// Nobody else has them.
void TableClient::lost(std::size_t server) {
  if (!has_given_) return;
  throw Error(fmt::format(
      "{} came back without the rows of '{}': expected what it had saved (sullae run --ps-dir, "
      "sullae ps --state); go on from a checkpoint",
      name_of(server), options().name));
}

void TableClient::divide(std::span<const std::uint64_t> ids) {
  for (Part& part : parts_) {
    part.ids.clear();
    part.places.clear();
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Part& part = parts_[server_of(ids[i], parts_.size())];
    part.ids.push_back(ids[i]);
    part.places.push_back(i);
  }
  for (const Part& part : parts_) check_size(part.ids.size(), dimension());
}

void TableClient::check_size(std::size_t rows, std::size_t floats) const {
  const std::size_t most = static_cast<std::size_t>(kMostPart) / (floats * sizeof(float));
  if (rows > most)
    throw InputError(fmt::format("'{}': {} rows of one server in a message: expected {} at most",
                                 options().name, rows, most));
}

TableClient::Items TableClient::with_ids() const {
  Items items;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (!parts_[i].ids.empty()) items.push_back(static_cast<std::uint32_t>(i));
  }
  return items;
}

void TableClient::look_up(std::span<const std::uint64_t> ids, float* to) {
  divide(ids);
  to_ = to;
  ask(Request::rows, with_ids(), "rows of a table");
}

void TableClient::push(std::span<const std::uint64_t> ids, const float* gradients,
                       double learning_rate) {
  divide(ids);
  for (Part& part : parts_) {
    part.gradient.resize(part.ids.size() * dimension());
    for (std::size_t i = 0; i < part.ids.size(); ++i)
      std::copy_n(gradients + part.places[i] * dimension(), dimension(),
                  part.gradient.data() + i * dimension());
  }
  has_given_ = has_given_ || !ids.empty();
  push_all(learning_rate);
}

void TableClient::send_push(const Header& header, Attempt) {
  const Part& part = parts_[header.item];
  send(header, copy_of(part.ids), copy_of(part.gradient));
}

void TableClient::send_request(const Header& header) {
  const Part& part = parts_[header.item];
  if (header.kind == Kind::look_up) return send(header, copy_of(part.ids));
  if (header.kind == Kind::pull_state) return send(header, number_message(part.first));
  if (header.kind == Kind::clear) return send(header, number_message(part.steps));
  send(header, copy_of(part.rows.ids), copy_of(part.rows.data));
}

void TableClient::take(std::uint32_t item, Request request, std::vector<zmq::message_t>& parts) {
  Part& part = parts_[item];
  if (request == Request::rows) {
    const std::size_t bytes = dimension() * sizeof(float);
    if (parts.size() != 1 || parts[0].size() != part.ids.size() * bytes)
      throw Error(fmt::format("a parameter server gives other rows of '{}' than were asked for",
                              options().name));
    const auto* from = static_cast<const std::byte*>(parts[0].data());
    for (const std::size_t place : part.places) {
      copy_bytes(to_ + place * dimension(), from, bytes);
      from += bytes;
    }
  } else if (request == Request::state) {
    part.rows = {.ids = vector_of<std::uint64_t>(parts.at(0)),
                 .data = vector_of<float>(parts.at(1))};
    part.steps = vector_of<std::int64_t>(parts.at(2)).at(0);
  }
}

std::int64_t TableClient::pull_rows(const std::function<void(const Rows&)>& take) {
  Items items;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].first = 0;
    items.push_back(static_cast<std::uint32_t>(i));
  }
  while (!items.empty()) {
    ask(Request::state, items, "a table's rows");
    std::erase_if(items, [&](auto item) {
      const Part& part = parts_[item];
      if (part.rows.ids.empty()) return true;
      take(part.rows);
      parts_[item].first += static_cast<std::int64_t>(part.rows.ids.size());
      return false;
    });
  }
  return std::ranges::max(parts_, {}, &Part::steps).steps;
}

void TableClient::clear(std::int64_t steps) {
  for (Part& part : parts_) part.steps = steps;
  ask_all(Request::clear, "a table to be emptied");
}

void TableClient::put_rows(const Rows& rows) {
  divide(rows.ids);
  for (Part& part : parts_) {
    check_size(part.ids.size(), width_);
    part.rows = {.ids = part.ids, .data = {}};
    for (const std::size_t place : part.places) {
      const float* const from = rows.data.data() + place * width_;
      part.rows.data.insert(part.rows.data.end(), from, from + width_);
    }
  }
  has_given_ = true;
  ask(Request::store, with_ids(), "a table's rows to be stored");
}

}  // namespace sullae::ps
