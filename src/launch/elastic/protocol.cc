#include "launch/elastic/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/dump_json.h"
#include "base/number.h"

namespace sullae::elastic {
namespace {

constexpr std::string_view kFromWorkers = "elastic/said/";
constexpr std::string_view kToWorkers = "elastic/told/";

constexpr std::array<std::string_view, 4> kWorkerKinds = {"ready", "leaves", "left", "exits"};
constexpr std::array<std::string_view, 4> kLauncherKinds = {"interrupt", "abandon", "form",
                                                            "release"};

// Throws nlohmann's exception, as its own parts do, for what is none of `names`.
template <class Kind, std::size_t count>
Kind kind_of(const nlohmann::json& json, const std::array<std::string_view, count>& names) {
  const auto text = json.at("kind").get<std::string>();
  const auto found = std::ranges::find(names, text);
  if (found == names.end())
    throw nlohmann::json::other_error::create(501, "kind '" + text + "' is not known", &json);
  return static_cast<Kind>(found - names.begin());
}

// Reasons may have bytes that are no UTF-8.
std::string text_of(const nlohmann::json& json) { return dump_json(json); }

}  // namespace

std::string WorkerMessage::to_json() const {
  return text_of({{"kind", kWorkerKinds.at(static_cast<std::size_t>(kind))}, {"reason", reason}});
}

WorkerMessage WorkerMessage::from_json(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  return {.kind = kind_of<Kind>(json, kWorkerKinds), .reason = json.at("reason")};
}

std::string LauncherMessage::to_json() const {
  return text_of({{"kind", kLauncherKinds.at(static_cast<std::size_t>(kind))},
                  {"generation", generation},
                  {"rank", rank},
                  {"size", size},
                  {"goes", goes},
                  {"reason", reason}});
}

LauncherMessage LauncherMessage::from_json(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  return {.kind = kind_of<Kind>(json, kLauncherKinds),
          .generation = json.at("generation"),
          .rank = json.at("rank"),
          .size = json.at("size"),
          .goes = json.at("goes"),
          .reason = json.at("reason")};
}

std::string worker_message_key(int worker, int number) {
  return fmt::format("{}{}/{}", kFromWorkers, worker, number);
}
std::string launcher_message_key(int worker, int number) {
  return fmt::format("{}{}/{}", kToWorkers, worker, number);
}

int worker_of(const std::string& key) {
  if (!key.starts_with(kFromWorkers)) return -1;
  // Behind it may be more: "worker/3/7".
  const auto number = std::string_view(key).substr(kFromWorkers.size());
  return number_in<int>(number.substr(0, number.find('/'))).value_or(-1);
}

std::string generation_prefix(int generation) { return fmt::format("{}/", generation); }

}  // namespace sullae::elastic
