#include "serve/online/online_api.h"

#include <nlohmann/json.hpp>

#include "serve/http/query.h"
#include "serve/online/lock.h"
#include "serve/protocol/json_tensors.h"

namespace sullae::serve {
namespace {

using nlohmann::json;

constexpr std::int64_t kUsualRounds = 20;
constexpr std::int64_t kMostRounds = 1000;

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
    body["waiting"] = store->examples.count_since(store->rounds.attempted_revision()).first;
    body["called"] = store->rounds.last_call() > store->rounds.answered_call();
    for (const Round& round : store->rounds.newest(limit)) body["rounds"].push_back(json_of(round));
  }
  return {.body = dump_json(body)};
}

HttpResponse OnlineApi::call(const std::string& model, const std::string& author) {
  const auto number = stores_.of(model).rounds.call(author);
  return {.body = dump_json(
              {{"call", number}, {"running", OnlineLock::is_held(stores_.directory_of(model))}})};
}

void OnlineApi::write_metrics(const std::vector<std::string>& models, MetricsText& text) {
  const auto label = [](const std::string& model) {
    return "model=\"" + MetricsText::escape(model) + "\"";
  };
  text.family("sullae_online_examples", "gauge", "Samples that operators have given");
  for (const auto& model : models) {
    if (ModelStore* const store = stores_.find(model))
      text.sample("sullae_online_examples", label(model),
                  static_cast<double>(store->examples.size()));
  }
  text.family("sullae_online_waiting", "gauge", "Samples that no round has been tried with");
  for (const auto& model : models) {
    if (ModelStore* const store = stores_.find(model))
      text.sample("sullae_online_waiting", label(model),
                  static_cast<double>(
                      store->examples.count_since(store->rounds.attempted_revision()).first));
  }
  text.family("sullae_online_rounds", "gauge", "Rounds of online learning by what came of them");
  for (const auto& model : models) {
    ModelStore* const store = stores_.find(model);
    if (store == nullptr) continue;
    for (const auto& [state, count] : store->rounds.counts())
      text.sample("sullae_online_rounds", label(model) + ",state=\"" + state + "\"",
                  static_cast<double>(count));
  }
}

}  // namespace sullae::serve
