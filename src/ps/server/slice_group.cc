#include "ps/server/slice_group.h"

#include <fmt/format.h>

namespace sullae::ps {

using nlohmann::json;

SliceGroup::SliceGroup(const json& said, const ServerOptions& options, Replies replies)
    : Group(said, options, replies) {
  constexpr std::size_t kMostElements = static_cast<std::size_t>(kMostPart) / sizeof(float);
  for (const json& slice : said.at("slices")) {
    std::size_t elements = 0;
    for (const json& range : slice.at("ranges")) {
      const auto size = range.get<std::size_t>();
      if (size > kMostElements || elements + size > kMostElements)
        throw InputError(fmt::format("a slice of more than {} elements", kMostElements));
      elements += size;
    }
    slices_.try_emplace(slice.at("id").get<std::uint32_t>(),
                        Slice{Shard(slice.at("ranges").get<std::vector<std::size_t>>(), rule_),
                              Clocks(staleness_)});
  }
}

json SliceGroup::shape() const {
  json slices = json::array();
  for (const auto& [id, slice] : slices_)
    slices.push_back({{"id", id}, {"ranges", slice.shard.sizes()}});
  return {{"slices", slices}};
}

Clocks* SliceGroup::clocks_of(std::uint32_t item) {
  const auto found = slices_.find(item);
  return found == slices_.end() ? nullptr : &found->second.clocks;
}

std::vector<std::pair<std::uint32_t, Clocks*>> SliceGroup::all_clocks() {
  std::vector<std::pair<std::uint32_t, Clocks*>> all;
  for (auto& [id, slice] : slices_) all.emplace_back(id, &slice.clocks);
  return all;
}

bool SliceGroup::needs_values(std::uint32_t item) const {
  return !slices_.at(item).shard.has_values();
}

bool SliceGroup::push(const Message& message) {
  Slice& slice = slices_.at(message.header.item);
  const auto& parts = message.parts;
  if (parts.size() != 2 || parts[0].size() != slice.shard.sizes().size() ||
      parts[1].size() != slice.shard.elements() * sizeof(float))
    return false;
  const Floats values(parts[1]);
  const Shard::Gradient gradient{.learning_rate = message.header.learning_rate,
                                 .present = span_of<std::uint8_t>(parts[0]),
                                 .values = values.data()};
  slice.clocks.has_rounds() ? slice.shard.add(gradient) : slice.shard.apply(gradient);
  return true;
}

void SliceGroup::apply_round(std::uint32_t item, float scale) {
  slices_.at(item).shard.apply_sum(scale);
}

void SliceGroup::give(zmq::message_t& to, const Header& header) {
  replies_.send(to, header, message_on(slices_.at(header.item).shard.values()));
}

bool SliceGroup::answer_own(Message& message) {
  const Header& header = message.header;
  Shard& shard = slices_.at(header.item).shard;
  if (header.kind == Kind::first) {
    first(message, shard);
  } else if (header.kind == Kind::put_state) {
    put_state(message, shard);
  } else if (header.kind == Kind::pull_state) {
    replies_.send(message.from,
                  {.kind = Kind::state, .item = header.item, .question = header.question},
                  copy_of(pack(shard.states())));
  } else {
    return false;
  }
  return true;
}

void SliceGroup::first(const Message& message, Shard& shard) {
  if (shard.has_values() || message.parts.size() != 1 ||
      message.parts[0].size() != shard.elements() * sizeof(float))
    return;
  shard.set_values(vector_of<float>(message.parts[0]));
  note_beginning();
  look_again();
}

void SliceGroup::put_state(Message& message, Shard& shard) {
  const Header header = message.header;
  if (message.parts.size() != 2 || message.parts[1].size() != shard.elements() * sizeof(float) ||
      !unpack(span_of<std::byte>(message.parts[0]), shard.states()))
    return replies_.refuse(message, fmt::format("a state that is none of slice {}", header.item));
  shard.set_values(vector_of<float>(message.parts[1]));
  note_beginning();
  replies_.send(message.from,
                {.kind = Kind::stored, .item = header.item, .question = header.question});
}

json SliceGroup::numbers() const {
  json numbers = json::array();
  for (const auto& [id, slice] : slices_)
    numbers.push_back({slice.shard.numbers(), slice.clocks.numbers()});
  return numbers;
}

void SliceGroup::restore_numbers(const json& numbers) {
  std::size_t i = 0;
  for (auto& [id, slice] : slices_) {
    slice.shard.restore(numbers.at(i).at(0));
    slice.clocks.restore(numbers.at(i++).at(1));
  }
}

std::vector<std::span<std::byte>> SliceGroup::arrays() {
  std::vector<std::span<std::byte>> arrays;
  for (auto& [id, slice] : slices_) {
    for (const auto& array : slice.shard.arrays()) arrays.push_back(array);
  }
  return arrays;
}

}  // namespace sullae::ps
