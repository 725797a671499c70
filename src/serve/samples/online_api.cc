#include "serve/samples/online_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/request_error.h"
#include "http/query.h"
#include "http/responses.h"
#include "online/config.h"
#include "online/lock.h"
#include "repository/publish.h"
#include "repository/versions.h"
#include "sullae/error.h"

namespace sullae::serve {
namespace {

using nlohmann::json;

constexpr std::int64_t kUsualRounds = 20;
constexpr std::int64_t kMostRounds = 1000;

std::int64_t waiting_in(const online::ModelStore& store) {
  return store.examples.count_since(store.rounds.attempted_revision()).first;
}

bool has_checkpoint(const std::filesystem::path& model) {
  return std::ranges::any_of(repository::versions_in(model), [&](std::int64_t version) {
    return std::filesystem::exists(model / std::to_string(version) / repository::kModelFile);
  });
}

}  // namespace

http::Response OnlineApi::status(const std::string& model, const std::string& query) {
  const auto limit = std::min(http::number_of(query, "limit", kUsualRounds), kMostRounds);
  json body = {{"running", online::OnlineLock::is_held(stores_.directory_of(model))},
               {"examples", 0},
               {"waiting", 0},
               {"called", false},
               {"rounds", json::array()}};
  if (const auto store = stores_.find(model)) {
    body["examples"] = store->examples.size();
    body["waiting"] = waiting_in(*store);
    body["called"] = store->rounds.last_call() > store->rounds.answered_call();
    for (const online::Round& round : store->rounds.newest(limit))
      body["rounds"].push_back(json_of(round));
  }
  return http::json_response(body);
}

http::Response OnlineApi::call(const std::string& model, const std::string& author) {
  if (const auto file = stores_.directory_of(model) / repository::kModelConfig;
      !online::read_online_config(file).enabled)
    throw RequestError(Refusal::conflict,
                       fmt::format("model '{}' does not learn: [online] in {} has enabled = false",
                                   model, file.string()));
  if (!has_checkpoint(stores_.directory_of(model)))
    throw RequestError(
        Refusal::conflict,
        fmt::format("model '{}' does not learn: no version of it is a checkpoint ({}), "
                    "and TorchScript modules are not trained further",
                    model, repository::kModelFile));
  const auto number = stores_.of(model)->rounds.call(author);
  return http::json_response(
      {{"call", number}, {"running", online::OnlineLock::is_held(stores_.directory_of(model))}});
}

void OnlineApi::write_metrics(const std::vector<std::string>& models, MetricsText& text) {
  struct Line {
    std::string labels;
    std::int64_t examples = 0;
    std::int64_t waiting = 0;
    std::map<std::string, std::int64_t> rounds = {};
    bool broken = false;
  };
  std::vector<Line> lines;
  for (const auto& model : models) {
    Line line{.labels = "model=\"" + MetricsText::escape(model) + "\""};
    try {
      const auto store = stores_.find(model);
      if (!store) continue;
      line.examples = store->examples.size();
      line.waiting = waiting_in(*store);
      line.rounds = store->rounds.counts();
    } catch (const Error& error) {
      // One model's file is damaged: the others' figures are what they are.
      line.broken = true;
      log::warning("metrics: {}", error.what());
    }
    lines.push_back(std::move(line));
  }
  const auto gauge = [&](const char* name, const char* help, const auto& value) {
    text.family(name, "gauge", help);
    for (const Line& line : lines) text.sample(name, line.labels, static_cast<double>(value(line)));
  };
  gauge("sullae_online_examples", "Samples that operators have given",
        [](const Line& line) { return line.examples; });
  gauge("sullae_online_waiting", "Samples that no round has been tried with",
        [](const Line& line) { return line.waiting; });
  gauge("sullae_online_store_broken", "1 where the file of the samples cannot be read",
        [](const Line& line) { return line.broken ? 1 : 0; });
  text.family("sullae_online_rounds", "gauge", "Rounds of online learning by what came of them");
  for (const Line& line : lines) {
    for (const auto& [state, count] : line.rounds)
      text.sample("sullae_online_rounds", line.labels + ",state=\"" + state + "\"",
                  static_cast<double>(count));
  }
}

}  // namespace sullae::serve
