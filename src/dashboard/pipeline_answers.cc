#include "dashboard/pipeline_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <optional>

#include "base/request_error.h"
#include "dashboard/log_piece.h"
#include "http/query.h"
#include "pipeline/forecast.h"
#include "pipeline/state.h"
#include "sullae/error.h"

namespace sullae::dashboard {
namespace {

using namespace pipeline;
using nlohmann::json;

constexpr std::size_t kMostRuns = 60;

json summary_of(const RunRecord& run, const State& state) {
  return {{"run", pipeline::to_text(run.scheduled)},
          {"state", state.describe(run)},
          {"scheduled", run.scheduled},
          {"started", state.is_killed(run) ? 0 : run.started},  // how long it took is not known
          {"ended", run.ended},
          {"deadline", run.deadline.value_or(0)},
          {"late", run.is_late || run.foreseen_late.has_value()}};
}

json summary_of(const std::string& id, const Pipeline& pipeline, const State& state,
                const std::vector<RunRecord>& runs) {
  json shown{{"id", id}, {"name", pipeline.name}, {"steps", pipeline.steps.size()}, {"due", 0}};
  if (pipeline.every) shown["due"] = pipeline.every->next(std::time(nullptr));
  shown["runs"] = json::array();
  for (const auto& run : runs) shown["runs"].push_back(summary_of(run, state));
  return shown;
}

Pipeline find_pipeline(Catalogue& catalogue, const std::string& query) {
  const auto id = http::text_of(query, "id").value_or("");
  const auto contents = catalogue.contents();
  const auto name = std::ranges::find(contents->found.pipelines, id, &id_of);
  if (name == contents->found.pipelines.end())
    throw RequestError(Refusal::not_found, fmt::format("there is no pipeline '{}'", id));
  return read_pipeline(catalogue.path(*name));
}

std::optional<RunRecord> run_of(const State& state, const std::vector<RunRecord>& runs,
                                const std::string& query) {
  const auto wanted = http::text_of(query, "run");
  if (!wanted) return runs.empty() ? std::nullopt : std::optional(runs.front());
  try {
    if (auto run = state.run(parse_time(*wanted, "run"))) return run;
  } catch (const InputError& error) {
    refuse(error.what());
  }
  throw RequestError(Refusal::not_found, fmt::format("there is no run of {}", *wanted));
}

}  // namespace

json list_pipelines(Catalogue& catalogue) {
  json shown = json::array();
  json problems = json::array();
  for (const auto& name : catalogue.contents()->found.pipelines) {
    try {
      const Pipeline pipeline = read_pipeline(catalogue.path(name));
      const State state(pipeline);
      if (!std::filesystem::exists(state.folder())) continue;  // another TOML file's
      shown.push_back(summary_of(id_of(name), pipeline, state, state.runs(kMostRuns)));
    } catch (const std::exception& error) {
      // One in which somebody has made a mistake, or that is not to be looked at.
      problems.push_back(error.what());
    }
  }
  return {{"pipelines", std::move(shown)}, {"problems", std::move(problems)}};
}

json show_pipeline(Catalogue& catalogue, const std::string& query) {
  const Pipeline pipeline = find_pipeline(catalogue, query);
  const State state(pipeline);
  const auto runs = state.runs(kMostRuns);
  json shown = summary_of(*http::text_of(query, "id"), pipeline, state, runs);
  shown["file"] = pipeline.file.string();
  const auto run = run_of(state, runs, query);
  const auto usual = usual_of(runs);
  shown["run"] = run ? summary_of(*run, state) : json();
  if (run && run->state == RunState::running && !state.is_killed(*run) && !usual.empty())
    shown["run"]["expected_end"] = forecast(pipeline, *run, usual, std::time(nullptr)).end;
  shown["run_steps"] = json::array();
  for (const Step& step : pipeline.steps) {
    StepRecord record;
    if (run && run->steps.contains(step.name)) record = run->steps.at(step.name);
    const auto described = run ? state.describe(*run, record) : to_text(record.state);
    if (run && state.is_killed(*run, record)) record.started = 0;
    shown["run_steps"].push_back({{"step", step.name},
                                  {"command", step.run},
                                  {"after", step.after},
                                  {"is_job", step.job.has_value()},
                                  {"state", described},
                                  {"started", record.started},
                                  {"ended", record.ended},
                                  {"attempts", record.attempts},
                                  {"exit_code", record.exit_code},
                                  {"reason", record.reason},
                                  {"usual", usual.contains(step.name) ? usual.at(step.name) : 0}});
  }
  return shown;
}

json step_log(Catalogue& catalogue, const std::string& query) {
  const Pipeline pipeline = find_pipeline(catalogue, query);
  const State state(pipeline);
  const auto run = run_of(state, state.runs(1), query);
  const auto name = http::text_of(query, "step").value_or("");
  const bool is_step =
      std::ranges::any_of(pipeline.steps, [&](const Step& step) { return step.name == name; });
  if (!run || !is_step)
    throw RequestError(Refusal::not_found, fmt::format("there is no step '{}'", name));
  const auto from = http::number_of(query, "from", -1);
  return log_piece(state.folder(), state.log(run->scheduled, name),
                   from < 0 ? std::nullopt : std::optional(from));
}

}  // namespace sullae::dashboard
