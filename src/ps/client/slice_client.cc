#include "ps/client/slice_client.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/copy.h"
#include "sullae/error.h"

namespace sullae::ps {
namespace {

using nlohmann::json;

std::vector<int> servers_of(const std::vector<Slice>& slices) {
  std::vector<int> servers;
  for (const Slice& slice : slices) servers.push_back(slice.server);
  return servers;
}

}  // namespace

SliceClient::SliceClient(ClientOptions options, std::vector<Slice> slices, const Rule& rule)
    : Client(std::move(options), servers_of(slices)),
      slices_(std::move(slices)),
      rule_(rule),
      states_(slices_.size()) {
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    states_[i].values = copy_of(std::vector<float>(slices_[i].elements()));
    states_[i].gradient = std::make_shared<std::vector<float>>(slices_[i].elements());
    states_[i].present.resize(slices_[i].ranges.size());
  }
  greet_all();
}

void SliceClient::start() {
  give_first_values();
  pull();
}

json SliceClient::description(std::span<const std::uint32_t> items) const {
  json said{{"rule", to_json(rule_)}, {"slices", json::array()}};
  for (const auto item : items) {
    json ranges = json::array();
    for (const Range& range : slices_[item].ranges) ranges.push_back(range.elements());
    said["slices"].push_back({{"id", item}, {"ranges", ranges}});
  }
  return said;
}

void SliceClient::send_first_values(const Header& header) {
  const zmq::message_t& values = states_[header.item].values;
  send(header, zmq::message_t(values.data(), values.size()));
}

void SliceClient::send_push(const Header& header, Attempt attempt) {
  const SliceState& state = states_[header.item];
  send(header, copy_of(state.present),
       attempt == Attempt::again ? copy_of(*state.gradient) : message_on(state.gradient));
}

void SliceClient::send_request(const Header& header) {
  if (header.kind != Kind::put_state) return send(header);
  const SliceState& state = states_[header.item];
  send(header, copy_of(state.state), zmq::message_t(state.values.data(), state.values.size()));
}

void SliceClient::take(std::uint32_t item, Request request, std::vector<zmq::message_t>& parts) {
  SliceState& state = states_[item];
  if (request == Request::state) {
    state.state = vector_of<std::byte>(parts.at(0));
  } else if (request == Request::values || request == Request::push) {
    zmq::message_t& values = parts.at(0);
    if (values.size() != state.values.size())
      throw Error(fmt::format("a parameter server gives {} bytes of a slice that has {}",
                              values.size(), state.values.size()));
    if (is_aligned(values))
      state.values = std::move(values);
    else
      copy_bytes(state.values.data(), values.data(), values.size());
  }
}

}  // namespace sullae::ps
