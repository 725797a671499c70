#include "online/round.h"

#include <limits>
#include <nlohmann/json.hpp>

namespace sullae::train {
namespace {

// JSON has no other word for a loss that is no number, or infinite.
double number_from(const nlohmann::json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

}  // namespace

inline void to_json(nlohmann::json& kept, const Accuracy& value) {
  kept = {{"loss", value.loss}, {"accuracy", value.accuracy}};
}

inline void from_json(const nlohmann::json& kept, Accuracy& value) {
  value = {.loss = number_from(kept.at("loss")), .accuracy = number_from(kept.at("accuracy"))};
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Measured, before, after, samples)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FineTuneResult, changed, earlier, test, steps, replayed)
}  // namespace sullae::train

namespace sullae::online {

NLOHMANN_JSON_SERIALIZE_ENUM(RoundState, {{RoundState::training, "training"},
                                          {RoundState::publishing, "publishing"},
                                          {RoundState::published, "published"},
                                          {RoundState::rejected, "rejected"},
                                          {RoundState::failed, "failed"},
                                          {RoundState::interrupted, "interrupted"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Round, id, state, trigger, parent, version, since, revision,
                                   call, authors, started, ended, step, steps, result, reason)

std::string name_of(RoundState state) { return nlohmann::json(state).get<std::string>(); }
nlohmann::json json_of(const Round& round) { return nlohmann::json(round); }
Round round_from(const nlohmann::json& kept) { return kept.get<Round>(); }

}  // namespace sullae::online
