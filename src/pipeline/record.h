// What became of a run and of its steps.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "pipeline/schedule.h"

namespace sullae::pipeline {

enum class StepState {
  waiting,
  running,
  done,
  kept,  ///< was done before, of what it needs as it is now
  failed,
  blocked,      ///< comes after one that failed
  interrupted,  ///< whoever ran it ended, or was told to
};
std::string to_text(StepState state);

struct StepRecord {
  StepState state = StepState::waiting;
  Time started = 0;  ///< 0: it has not
  Time ended = 0;
  int attempts = 0;
  int exit_code = 0;
  std::string reason = {};  ///< why it failed
  bool is_over() const { return state != StepState::waiting && state != StepState::running; }
};

enum class RunState { running, done, failed, interrupted };
std::string to_text(RunState state);

struct RunRecord {
  Time scheduled = 0;
  Time started = 0;
  Time ended = 0;
  RunState state = RunState::running;
  std::optional<Time> deadline = {};
  /// When it was first known that it would not be kept.
  std::optional<Time> foreseen_late = {};
  bool is_late = false;
  std::map<std::string, StepRecord> steps = {};
};

/// As it is kept, shown and told. from_json() throws nlohmann::json::exception.
nlohmann::json to_json(const RunRecord& run);
RunRecord run_from(const nlohmann::json& json);

}  // namespace sullae::pipeline
