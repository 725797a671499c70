#include "ps/server/group.h"

#include <fmt/format.h>

#include "base/secret.h"
#include "ps/server/slice_group.h"
#include "ps/server/table_group.h"

namespace sullae::ps {

using nlohmann::json;

namespace {

// What `one` has otherwise than `other`: "kind adam, beta1 0.8".
std::string differing(const json& one, const json& other) {
  std::string text;
  for (const auto& [key, value] : one.items()) {
    if (value == other.at(key)) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key,
                        value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

}  // namespace

std::unique_ptr<Group> Group::make(const json& said, const ServerOptions& options,
                                   Replies replies) {
  if (said.contains("table")) return std::make_unique<TableGroup>(said, options, replies);
  return std::make_unique<SliceGroup>(said, options, replies);
}

Group::Group(const json& said, const ServerOptions& options, Replies replies)
    : replies_(replies),
      rule_(rule_of(said.at("rule"))),
      staleness_(options.staleness),
      name_(said.at("group").get<std::string>()),
      id_(draw_secret()),
      members_(options.workers, options.lease) {}

std::string Group::wrong_with(const json& said) const {
  const json own = shape();
  const Rule rule = rule_of(said.at("rule"));
  const char* const whose = is_of_file_ ? "those in --ps-dir" : "the first worker's";
  if (rule != rule_)
    return fmt::format(
        "its optimizer is {}, and that of {} {}", differing(to_json(rule), to_json(rule_)),
        is_of_file_ ? "--ps-dir" : "the first worker", differing(to_json(rule_), to_json(rule)));
  for (const auto& [key, value] : own.items()) {
    if (said.contains(key) && said.at(key) == value) continue;
    return fmt::format(
        "the {} of '{}' are others than {}: expected the same model, and {}servers in the same "
        "order",
        key == "table" ? "rows" : "parameters", name_, whose,
        is_of_file_ ? "as many " : "the same ");
  }
  return "";
}

// Whoever left last time is waited for, from where the one was that left as the last.
void Group::begin(const std::set<int>& dead) {
  members_.begin(dead);
  for (const auto& [item, clocks] : all_clocks()) {
    for (const int worker : counted()) clocks->join(worker, {});
  }
}

bool Group::hello(Message& message, const json& said, const std::set<int>& dead) {
  const Header& header = message.header;
  if (const auto wrong = wrong_with(said); !wrong.empty()) {
    replies_.refuse(message, wrong);
    return false;
  }
  if (members_.was_replaced(header.worker, header.incarnation)) {
    replies_.refuse(message, fmt::format("another process is worker {} by now", header.worker));
    return false;
  }
  if (members_.living().empty()) {
    begin(dead);
    // In the midst of a training that a server before this one has served: those who do not live
    // are not waited for.
    if (header.step > 0) members_.expect_to_hear(Clock::now());
  }
  is_of_file_ = false;
  members_.join(header.worker, header.incarnation, Clock::now());
  bool needs = false;
  std::int64_t step = 0;
  json answer{{"taken", json::array()}, {"staleness", staleness_}};
  for (const auto& [item, clocks] : all_clocks()) {
    step = std::max(step, clocks->join(header.worker, counted()));
    clocks->advance(header.worker, header.step);
    answer["taken"].push_back({item, clocks->last_taken(header.worker, header.incarnation)});
    needs = needs || needs_values(item);
  }
  answer["needs"] = needs && gives_values(header.worker);
  answer["step"] = step;
  answer["group"] = id_;
  const std::string text = answer.dump();
  replies_.send(message.from, {.kind = Kind::welcome}, message_of(text));
  look_again();
  return true;
}

void Group::note_beginning() {
  is_whole_ = false;
  has_begun_anew_ = true;
  given_ = Clock::now();
  note_change();
}

bool Group::is_whole(Clock::time_point now) const {
  constexpr std::chrono::seconds kQuiet{2};
  return is_whole_ || now - given_ > kQuiet;
}

void Group::answer(Message& message) {
  const Header& header = message.header;
  const bool is_known = members_.hear(header.worker, header.incarnation, Clock::now());
  if (header.kind == Kind::alive && (is_known || !members_.has_joined(header.worker)))
    hear_step(header.worker, header.step);
  if (is_known) return answer_known(message);
  // It ends, and will not say hello.
  if (header.kind == Kind::leave && members_.leave(header.worker, header.incarnation))
    return look_again();
  // It can say hello only when it wakes: a server that is new here does not wait for it.
  if (header.kind == Kind::alive_at_rest && !members_.has_joined(header.worker)) {
    members_.rest(header.worker);
    return look_again();
  }
  if (needs_answer(header.kind))
    replies_.send(message.from, {.kind = Kind::unknown, .item = header.item});
}

// One that waits for others, and not for this server, does not hear that it has come back with an
// older state: nobody is to wait for it here in turn.
void Group::hear_step(int worker, std::int64_t step) {
  auto& heard = steps_[worker];
  if (step <= heard) return;
  heard = step;
  bool has_moved = false;
  for (const auto& [item, clocks] : all_clocks())
    has_moved = clocks->advance(worker, step) || has_moved;
  if (has_moved) look_again();
}

void Group::answer_known(Message& message) {
  const Header& header = message.header;
  if (header.kind == Kind::alive || header.kind == Kind::alive_at_rest) return;
  if (header.kind == Kind::leave || header.kind == Kind::fail) {
    // Who leaves has brought all that it wanted to.
    is_whole_ = is_whole_ || header.kind == Kind::leave;
    if (members_.leave(header.worker, header.incarnation)) look_again();
    return;
  }
  Clocks* const clocks = clocks_of(header.item);
  if (clocks == nullptr)
    return replies_.refuse(message, fmt::format("'{}' has no item {}", name_, header.item));
  if (header.kind == Kind::rest) return rest(message);
  if (header.kind != Kind::first && needs_values(header.item)) return ask_for_values(message);
  if (header.kind == Kind::pull) return pull(message);
  if (header.kind == Kind::push) return answer_push(message, *clocks);
  if (header.kind == Kind::query) return query(message, *clocks);
  if (!answer_own(message))
    replies_.refuse(message, fmt::format("'{}' takes no such message {}", name_,
                                         static_cast<unsigned>(header.kind)));
}

void Group::rest(Message& message) {
  const Header& header = message.header;
  members_.rest(header.worker);
  replies_.send(message.from,
                {.kind = Kind::resting, .item = header.item, .question = header.question});
  look_again();
}

void Group::pull(Message& message) {
  const Header header = message.header;
  if (members_.rests(header.worker)) begin_to_count(header.worker);
  wait_to_go_on(message, header);
}

// From where the others are.
void Group::begin_to_count(int worker) {
  members_.count(worker);
  for (const auto& [item, clocks] : all_clocks()) clocks->join(worker, counted());
}

void Group::answer_push(Message& message, Clocks& clocks) {
  const Header& header = message.header;
  Header answer = header;
  const PushId id{header.incarnation, header.question};
  if (!clocks.has_taken(header.worker, id)) {
    if (!push(message))
      return replies_.refuse(
          message, fmt::format("a gradient that is none of '{}', item {}", name_, header.item));
    if (!counted().contains(header.worker)) begin_to_count(header.worker);
    const Delay delay = clocks.take(header.worker, id, header.step, met());
    answer.lead = delay.lead;
    answer.updates = delay.updates;
    if (!clocks.has_rounds()) clocks.updated();
    settle(header.item);
    is_whole_ = true;
    note_change();
  }
  wait_to_go_on(message, answer);
}

void Group::query(Message& message, Clocks& clocks) {
  const Header header = message.header;
  if (!clocks.has_taken(header.worker, {header.incarnation, header.question}))
    return replies_.send(message.from,
                         {.kind = Kind::again, .item = header.item, .question = header.question});
  zmq::message_t from;
  from.copy(message.from);
  Header answer = header;
  for (const Waiting& one : waiting_[header.item]) {
    if (one.header.worker != header.worker) continue;
    answer.lead = one.header.lead;
    answer.updates = one.header.updates;
  }
  wait_to_go_on(message, answer);
  if (!clocks.may_go_on(header.worker, counted()))
    replies_.send(
        from, {.kind = Kind::waiting, .worker = clocks.slowest(counted()), .item = header.item});
}

// Of the first of the workers, who says hello again to hear that it is to give them; the others ask
// again.
void Group::ask_for_values(Message& message) {
  const Header header = message.header;
  if (gives_values(header.worker))
    return replies_.send(message.from, {.kind = Kind::unknown, .item = header.item});
  const int first = counted().empty() ? 0 : *counted().begin();
  zmq::message_t to;
  to.copy(message.from);
  replies_.send(to, {.kind = Kind::waiting, .worker = first, .item = header.item});
  if (header.kind == Kind::pull) wait_to_go_on(message, header);
}

// Where the others are is not known before they have said hello.
std::set<int> Group::met() const {
  std::set<int> workers = counted();
  std::erase_if(workers, [this](int worker) { return !members_.has_joined(worker); });
  return workers;
}

bool Group::gives_values(int worker) const {
  return counted().empty() || worker == *counted().begin();
}

// A worker waits once for an item.
void Group::wait_to_go_on(Message& message, const Header& header) {
  auto& waiting = waiting_[header.item];
  std::erase_if(waiting, [&](const Waiting& one) { return one.header.worker == header.worker; });
  waiting.push_back({std::move(message.from), header});
  release(header.item);
}

void Group::look_again() {
  for (const auto& [item, clocks] : all_clocks()) {
    settle(item);
    release(item);
  }
}

void Group::settle(std::uint32_t item) {
  Clocks& clocks = *clocks_of(item);
  if (!clocks.is_round_full(counted())) return;
  const int given = clocks.end_round(counted());
  if (given == 0) return;
  apply_round(item, 1.0F / static_cast<float>(given));
  clocks.updated();
  note_change();
}

void Group::release(std::uint32_t item) {
  if (needs_values(item)) return;
  Clocks& clocks = *clocks_of(item);
  std::erase_if(waiting_[item], [&](Waiting& one) {
    if (!clocks.may_go_on(one.header.worker, counted())) return false;
    clocks.pulled(one.header.worker);
    one.header.kind = Kind::values;
    one.header.step = clocks.clock(one.header.worker);
    give(one.to, one.header);
    return true;
  });
}

json Group::description() const {
  json description = shape();
  description["group"] = name_;
  description["rule"] = to_json(rule_);
  description["living"] = members_.living();
  description["counted"] = members_.counted();
  description["resting"] = members_.resting();
  description["numbers"] = numbers();
  description["id"] = id_;
  return description;
}

void Group::restore(const json& saved, bool same_job) {
  is_of_file_ = true;
  restore_numbers(saved.at("numbers"));
  saved.at("id").get_to(id_);
  is_whole_ = true;
  has_begun_anew_ = false;
  is_on_disk_ = true;
  if (same_job)
    members_.restore(saved.at("living").get<std::set<int>>(),
                     saved.at("counted").get<std::set<int>>(),
                     saved.at("resting").get<std::set<int>>());
}

}  // namespace sullae::ps
