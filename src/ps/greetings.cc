// How workers come to a server, and its first values.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ps/server.h"

namespace sullae::ps {

namespace {

using nlohmann::json;

}  // namespace

std::string ServerLoop::wrong_with(const json& said, const Rule& rule) const {
  if (!rule_) return "";
  if (rule != *rule_)
    return fmt::format("its optimizer is {}, and the first worker's {}", to_json(rule).dump(),
                       to_json(*rule_).dump());
  const json& slices = said.at("slices");
  bool same = slices.size() == shards_.size();
  for (const json& slice : slices) {
    const auto found = shards_.find(slice.at("id").get<std::uint32_t>());
    same = same && found != shards_.end() &&
           found->second.sizes() == slice.at("ranges").get<std::vector<std::size_t>>();
  }
  return same ? ""
              : "its parameters are others than the first worker's: expected the same model, and "
                "the same servers in the same order";
}

void ServerLoop::hello(Message& message) {
  const Header& header = message.header;
  json answer;
  try {
    const json said = json::parse(message.parts.at(0).to_string_view());
    if (said.at("secret").get<std::string>() != options_.secret)
      return refuse(message, "it belongs to another job (SULLAE_JOB_SECRET)");
    const Rule rule = rule_of(said.at("rule"));
    const auto wrong = wrong_with(said, rule);
    if (!wrong.empty()) return refuse(message, wrong);
    if (!rule_) {
      std::map<std::uint32_t, Shard> shards;
      for (const json& slice : said.at("slices"))
        shards.try_emplace(slice.at("id").get<std::uint32_t>(),
                           slice.at("ranges").get<std::vector<std::size_t>>(), rule,
                           options_.staleness);
      shards_ = std::move(shards);
      rule_ = rule;
    }
  } catch (const json::exception& error) {
    return refuse(message, fmt::format("it cannot read the greeting: {}", error.what()));
  } catch (const Error& error) {
    return refuse(message, error.what());
  } catch (const std::out_of_range&) {
    return refuse(message, "a greeting without words");
  }
  members_.join(header.worker, header.incarnation, Clock::now());
  bool needs = false;
  answer["taken"] = json::array();
  for (auto& [id, shard] : shards_) {
    shard.join(header.worker, members_.counted());
    answer["taken"].push_back({id, shard.last_taken(header.worker, header.incarnation)});
    needs = needs || !shard.has_values();
  }
  answer["needs"] = needs && gives_values(header.worker);
  answer["staleness"] = options_.staleness;
  const std::string text = answer.dump();
  reply(message.from, {.kind = Kind::welcome}, message_of(text));
  look_again();
}

void ServerLoop::first(const Message& message, Shard& shard) {
  if (shard.has_values() || message.parts.size() != 1 ||
      message.parts[0].size() != shard.elements() * sizeof(float))
    return;
  shard.set_values(floats_of(message.parts[0]));
  note_change();
  look_again();
}

// Of the first of the workers, who says hello again to hear that it is to give them; the others ask again.
void ServerLoop::ask_for_values(Message& message, Shard& shard) {
  const Header& header = message.header;
  if (gives_values(header.worker))
    return reply(message.from, {.kind = Kind::unknown, .slice = header.slice});
  const auto& members = members_.counted();
  zmq::message_t to;
  to.copy(message.from);
  reply(to, {.kind = Kind::waiting,
             .worker = members.empty() ? 0 : *members.begin(),
             .slice = header.slice});
  if (header.kind == Kind::pull) wait_to_go_on(message, shard, header);
}

bool ServerLoop::gives_values(int worker) const {
  const auto& members = members_.counted();
  return members.empty() || worker == *members.begin();
}

}  // namespace sullae::ps
