// Runs a pipeline once.
#pragma once

#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "pipeline/contents.h"
#include "pipeline/definition.h"
#include "pipeline/forecast.h"
#include "pipeline/process.h"
#include "pipeline/state.h"
#include "pipeline/steps_of_run.h"
#include "pipeline/turn.h"

namespace sullae::pipeline {

/// By one thread, of a process that holds the lock.
class Runner {
 public:
  /// `program`: this one, for steps that are jobs. `turn`: this run's. All outlive this object; the
  /// end of the turn's teller waits until all is told.
  Runner(const Pipeline& pipeline, const State& state, Time scheduled,
         std::filesystem::path program, const Turn& turn);

  /// Does what is not done of the run, until nothing is left that can be, or `is_to_end`, which is
  /// asked several times a second. Says on standard output what becomes of steps, and tells whom
  /// the pipeline names. What cannot be noted, as on a full disk, is said, and steps go on.
  RunRecord run(const std::function<bool()>& is_to_end);

 private:
  struct Active {
    const Step* step;
    StepProcess process;
    Clock::time_point begun;
    std::uintmax_t log_begin = 0;       ///< where what it prints begins in its log
    std::optional<int> exit_code = {};  ///< when it has ended
    std::string why = {};               ///< where it was stopped
  };

  void take_up();
  void do_steps();
  void begin_ready();
  bool is_ready(const Step& step) const;
  bool is_blocked(const Step& step) const;
  void begin(const Step& step);
  void start_attempt(const Step& step);
  bool look_after(Active& active);
  bool has_ended(Active& active) const;
  bool is_to_end_while_reading();
  void attempt_ended(const Active& active);
  void succeeded(const Step& step);
  void fail(const Step& step, const std::string& reason);
  void interrupt();
  bool was_done(const Step& step);
  void watch_deadline();
  void finish();
  void save();
  void try_to_write(const std::function<void()>& write);

  void cancel_job(const Step& step) const;
  void say(const std::string& line) const;

  const Pipeline& pipeline_;
  const State& state_;
  Teller& teller_;
  std::optional<Time> foreseen_late_;
  std::filesystem::path program_;
  std::function<bool()> is_to_end_;
  Contents contents_;
  StepsOfRun steps_;
  Usual usual_;
  RunRecord run_;
  RunRecord before_;                            // what the run had come to
  std::map<std::string, int> attempts_before_;  // of steps, when they began
  bool has_done_ = false;                       // anything
  bool has_warned_ = false;                     // that a record cannot be written
  std::list<Active> active_;
  std::map<std::string, std::map<std::string, std::string>> inputs_;  // of steps, when they began
  Clock::time_point looked_ = {};                                     // at the forecast
};

}  // namespace sullae::pipeline
