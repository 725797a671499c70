#include "ps/server/table_group.h"

#include <fmt/format.h>

namespace sullae::ps {

using nlohmann::json;

namespace {

constexpr std::size_t kBytesOfAPart = std::size_t{4} << 20;

}  // namespace

TableGroup::TableGroup(const json& said, const ServerOptions& options, Replies replies)
    : Group(said, options, replies),
      id_(said.at("table").at("id").get<std::uint32_t>()),
      shape_(table_shape_of(said.at("table"))),
      table_(shape_, rule_),
      clocks_(staleness_) {}

json TableGroup::shape() const {
  json table = to_json(shape_);
  table["id"] = id_;
  return {{"table", table}};
}

bool TableGroup::push(const Message& message) {
  const auto& parts = message.parts;
  if (parts.size() != 2) return false;
  const auto ids = vector_of<std::uint64_t>(parts[0]);
  if (parts[1].size() != ids.size() * table_.dimension() * sizeof(float)) return false;
  const Floats values(parts[1]);
  const Table::Gradient gradient{
      .learning_rate = message.header.learning_rate, .ids = ids, .values = values.data()};
  clocks_.has_rounds() ? table_.add(gradient) : table_.apply(gradient);
  return true;
}

bool TableGroup::answer_own(Message& message) {
  const Header header = message.header;
  const Header stored{.kind = Kind::stored, .item = header.item, .question = header.question};
  switch (header.kind) {
    case Kind::look_up:
      look_up(message);
      return true;
    case Kind::pull_state:
      give_rows(message);
      return true;
    case Kind::put_state:
      if (!put_rows(message))
        replies_.refuse(message, fmt::format("rows that are none of '{}'", name()));
      else
        replies_.send(message.from, stored);
      return true;
    case Kind::clear:
      if (message.parts.size() != 1 || message.parts[0].size() != sizeof(std::int64_t))
        return false;
      table_.clear(vector_of<std::int64_t>(message.parts[0]).front());
      note_beginning();
      replies_.send(message.from, stored);
      return true;
    default:
      return false;
  }
}

void TableGroup::look_up(Message& message) {
  Header header = message.header;
  if (message.parts.size() != 1)
    return replies_.refuse(message, fmt::format("'{}' is asked for no rows", name()));
  const auto ids = vector_of<std::uint64_t>(message.parts[0]);
  if (ids.size() > static_cast<std::size_t>(kMostPart) / sizeof(float) / table_.dimension())
    return replies_.refuse(message, fmt::format("'{}' is asked for too many rows", name()));
  std::vector<float> values(ids.size() * table_.dimension());
  table_.look_up(ids, values.data());
  clocks_.pulled(header.worker);
  header.kind = Kind::values;
  replies_.send(message.from, header,
                message_on(std::make_shared<std::vector<float>>(std::move(values))));
}

// From a place on, as many as a message is to have.
void TableGroup::give_rows(Message& message) {
  const Header header = message.header;
  if (message.parts.size() != 1 || message.parts[0].size() != sizeof(std::uint64_t))
    return replies_.refuse(message, fmt::format("'{}' is asked for rows from nowhere on", name()));
  const auto first = vector_of<std::uint64_t>(message.parts[0]).front();
  const std::size_t most = kBytesOfAPart / (table_.width() * sizeof(float)) + 1;
  const Rows rows = table_.part(first, most);
  replies_.send(message.from,
                {.kind = Kind::state, .item = header.item, .question = header.question},
                copy_of(rows.ids), copy_of(rows.data), number_message(table_.steps()));
}

bool TableGroup::put_rows(const Message& message) {
  if (message.parts.size() != 2) return false;
  const Rows rows{.ids = vector_of<std::uint64_t>(message.parts[0]),
                  .data = vector_of<float>(message.parts[1])};
  if (rows.data.size() != rows.ids.size() * table_.width()) return false;
  table_.put(rows);
  note_beginning();
  return true;
}

json TableGroup::numbers() const {
  return {{"table", table_.numbers()}, {"clocks", clocks_.numbers()}};
}

void TableGroup::restore_numbers(const json& numbers) {
  table_.restore(numbers.at("table"));
  clocks_.restore(numbers.at("clocks"));
}

}  // namespace sullae::ps
