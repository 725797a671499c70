#include "online/round.h"

#include <nlohmann/json.hpp>

namespace sullae::train {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Accuracy, loss, accuracy)
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
Round round_from(const nlohmann::json& json) { return json.get<Round>(); }

}  // namespace sullae::online
