#include "pipeline/record.h"

#include <nlohmann/json.hpp>

namespace sullae::pipeline {

using nlohmann::json;

NLOHMANN_JSON_SERIALIZE_ENUM(StepState, {{StepState::waiting, "waiting"},
                                         {StepState::running, "running"},
                                         {StepState::done, "done"},
                                         {StepState::kept, "kept"},
                                         {StepState::failed, "failed"},
                                         {StepState::blocked, "blocked"},
                                         {StepState::interrupted, "interrupted"}})
NLOHMANN_JSON_SERIALIZE_ENUM(RunState, {{RunState::running, "running"},
                                        {RunState::done, "done"},
                                        {RunState::failed, "failed"},
                                        {RunState::interrupted, "interrupted"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepRecord, state, started, ended, attempts, exit_code, reason)

std::string to_text(StepState state) { return json(state).get<std::string>(); }
std::string to_text(RunState state) { return json(state).get<std::string>(); }

json to_json(const RunRecord& run) {
  json saved{{"scheduled", run.scheduled}, {"started", run.started}, {"ended", run.ended},
             {"state", run.state},         {"late", run.is_late},    {"steps", run.steps}};
  if (run.deadline) saved["deadline"] = *run.deadline;
  if (run.foreseen_late) saved["foreseen_late"] = *run.foreseen_late;
  return saved;
}

RunRecord run_from(const json& saved) {
  RunRecord run;
  saved.at("scheduled").get_to(run.scheduled);
  saved.at("started").get_to(run.started);
  saved.at("ended").get_to(run.ended);
  saved.at("state").get_to(run.state);
  saved.at("late").get_to(run.is_late);
  saved.at("steps").get_to(run.steps);
  if (saved.contains("deadline")) run.deadline = saved["deadline"].get<Time>();
  if (saved.contains("foreseen_late")) run.foreseen_late = saved["foreseen_late"].get<Time>();
  return run;
}

}  // namespace sullae::pipeline
