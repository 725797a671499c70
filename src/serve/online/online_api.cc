#include "serve/online/online_api.h"

#include <nlohmann/json.hpp>

#include "serve/http/query.h"
#include "serve/online/lock.h"
#include "serve/responses.h"

namespace sullae::serve {
namespace {

using nlohmann::json;

constexpr std::int64_t kUsualRounds = 20;
constexpr std::int64_t kMostRounds = 1000;

std::int64_t waiting_in(const ModelStore& store) {
  return store.examples.count_since(store.rounds.attempted_revision()).first;
}

}  // namespace

HttpResponse OnlineApi::status(const std::string& model, const std::string& query) {
  const auto limit = std::min(number_of(query, "limit", kUsualRounds), kMostRounds);
  json body = {{"running", OnlineLock::is_held(stores_.directory_of(model))},
               {"examples", 0},
               {"waiting", 0},
               {"called", false},
               {"rounds", json::array()}};
  if (ModelStore* const store = stores_.find(model)) {
    body["examples"] = store->examples.size();
    body["waiting"] = waiting_in(*store);
    body["called"] = store->rounds.last_call() > store->rounds.answered_call();
    for (const Round& round : store->rounds.newest(limit)) body["rounds"].push_back(json_of(round));
  }
  return json_response(body);
}

HttpResponse OnlineApi::call(const std::string& model, const std::string& author) {
  const auto number = stores_.of(model).rounds.call(author);
  return json_response(
      {{"call", number}, {"running", OnlineLock::is_held(stores_.directory_of(model))}});
}

void OnlineApi::write_metrics(const std::vector<std::string>& models, MetricsText& text) {
  std::vector<std::pair<std::string, ModelStore*>> lines;
  for (const auto& model : models) {
    if (ModelStore* const store = stores_.find(model))
      lines.emplace_back("model=\"" + MetricsText::escape(model) + "\"", store);
  }
  text.family("sullae_online_examples", "gauge", "Samples that operators have given");
  for (const auto& [labels, store] : lines)
    text.sample("sullae_online_examples", labels, static_cast<double>(store->examples.size()));
  text.family("sullae_online_waiting", "gauge", "Samples that no round has been tried with");
  for (const auto& [labels, store] : lines)
    text.sample("sullae_online_waiting", labels, static_cast<double>(waiting_in(*store)));
  text.family("sullae_online_rounds", "gauge", "Rounds of online learning by what came of them");
  for (const auto& [labels, store] : lines) {
    for (const auto& [state, count] : store->rounds.counts())
      text.sample("sullae_online_rounds", labels + ",state=\"" + state + "\"",
                  static_cast<double>(count));
  }
}

}  // namespace sullae::serve
