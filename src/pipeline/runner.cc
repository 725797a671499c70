#include "pipeline/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <thread>
#include <utility>

#include "sullae/error.h"

namespace sullae::pipeline {

namespace fs = std::filesystem;

Runner::Runner(const Pipeline& pipeline, const State& state, Time scheduled, fs::path program,
               const Turn& turn)
    : pipeline_(pipeline),
      state_(state),
      teller_(*turn.teller),
      foreseen_late_(turn.foreseen_late),
      program_(std::move(program)),
      contents_(state.contents(), [this] { return is_to_end_while_reading(); }),
      steps_(pipeline, state, scheduled, contents_),
      usual_(usual_of(state.runs(kRunsLookedAt))),
      run_(state.run(scheduled).value_or(RunRecord{.scheduled = scheduled})) {
  run_.deadline.reset();  // of an earlier attempt
  if (!pipeline.deadline.empty())
    run_.deadline = deadline_after(scheduled, pipeline.deadline, "deadline");
}

RunRecord Runner::run(const std::function<bool()>& is_to_end) {
  is_to_end_ = is_to_end;
  take_up();
  try {
    do_steps();
  } catch (const Interrupted&) {
    interrupt();
  }
  finish();
  return run_;
}

void Runner::do_steps() {
  for (;;) {
    if (is_to_end_()) throw Interrupted();
    begin_ready();
    if (active_.empty()) return;
    watch_deadline();
    constexpr std::chrono::milliseconds kTurn{50};
    std::this_thread::sleep_for(kTurn);
    // Whoever ends this may end the steps, too: that is no failure of theirs.
    if (is_to_end_()) continue;
    for (auto one = active_.begin(); one != active_.end();) {
      // Another attempt comes in at the end.
      one = look_after(*one) ? active_.erase(one) : std::next(one);
    }
  }
}

// While one step's files are read, others take their time. (Jobs' limits wait: to cancel one may
// take long, or fail.)
bool Runner::is_to_end_while_reading() {
  if (is_to_end_()) return true;
  for (Active& active : active_) {
    if (!active.step->job) has_ended(active);
  }
  return false;
}

// Where a run before has ended, or was killed.
void Runner::take_up() {
  before_ = run_;
  // Who holds the lock is the only one: what runs of others is left over, of other times, too.
  auto others = state_.runs(kRunsLookedAt);
  others.push_back(before_);  // which may be an old one
  for (const RunRecord& run : others) {
    if (run.state != RunState::running) continue;
    for (const auto& [name, record] : run.steps) {
      if (record.state == StepState::running) kill_marked(steps_.mark(run.scheduled, name));
    }
  }
  std::map<std::string, StepRecord> steps;
  for (const Step& step : pipeline_.steps) {
    StepRecord record = run_.steps[step.name];
    // Of what was done it is seen again whether it still is.
    steps[step.name] = {.attempts = record.attempts};
  }
  run_.steps = std::move(steps);
  run_.state = RunState::running;
  run_.started = std::time(nullptr);
  run_.ended = 0;
  run_.foreseen_late = foreseen_late_;
  save();
  say(fmt::format("{}: the run of {}{}", pipeline_.name, to_text(run_.scheduled),
                  run_.deadline ? ", to be over by " + to_text(*run_.deadline) : ""));
}

void Runner::begin_ready() {
  // What is kept, or fails at once, lets others begin.
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (const Step& step : pipeline_.steps) {
      StepRecord& record = run_.steps[step.name];
      if (record.state != StepState::waiting) continue;
      if (is_blocked(step)) {
        record.state = StepState::blocked;
        has_changed = true;
      } else if (is_ready(step) &&
                 (pipeline_.parallel == 0 || std::ssize(active_) < pipeline_.parallel)) {
        begin(step);
        has_changed = true;
      }
    }
  }
}

bool Runner::is_ready(const Step& step) const {
  return std::ranges::all_of(step.after, [&](const auto& before) {
    const auto state = run_.steps.at(before).state;
    return state == StepState::done || state == StepState::kept;
  });
}

bool Runner::is_blocked(const Step& step) const {
  return std::ranges::any_of(step.after, [&](const auto& before) {
    const auto state = run_.steps.at(before).state;
    return state == StepState::failed || state == StepState::blocked;
  });
}

void Runner::interrupt() {
  std::vector<StepProcess*> all;
  for (auto& active : active_) all.push_back(&active.process);
  StepProcess::stop(all);
  for (auto& active : active_) {
    StepRecord& record = run_.steps[active.step->name];
    record.state = StepState::interrupted;
    record.ended = std::time(nullptr);
    say(fmt::format("{}: interrupted", active.step->name));
  }
  active_.clear();
  // What it needs was being read.
  for (auto& [name, record] : run_.steps) {
    if (record.state == StepState::waiting) record.started = 0;
  }
}

// A step that makes nothing is done once a run.
bool Runner::was_done(const Step& step) {
  const auto command = steps_.command(step);
  const auto environment = steps_.settings(step);
  std::string missing;
  const auto& inputs = inputs_[step.name];
  const auto outputs = steps_.contents(step.makes, missing);
  if (!missing.empty()) return false;
  return std::ranges::any_of(state_.done(step.name), [&](const Done& one) {
    return one.command == command && one.environment == environment && one.inputs == inputs &&
           one.outputs == outputs && (!step.makes.empty() || one.scheduled == run_.scheduled);
  });
}

void Runner::watch_deadline() {
  constexpr std::chrono::seconds kBetween{1};
  if (!run_.deadline || run_.foreseen_late || Clock::now() - looked_ < kBetween) return;
  looked_ = Clock::now();
  const Time now = std::time(nullptr);
  const auto message = lateness(pipeline_, run_, usual_, now);
  if (!message) return;
  run_.foreseen_late = now;
  save();
  say(*message);
  teller_.tell("late", *message, run_);
}

void Runner::finish() {
  const auto is = [&](StepState state) {
    return std::ranges::any_of(run_.steps,
                               [&](const auto& one) { return one.second.state == state; });
  };
  run_.ended = std::time(nullptr);
  run_.state = is(StepState::failed)                                  ? RunState::failed
               : is(StepState::interrupted) || is(StepState::waiting) ? RunState::interrupted
                                                                      : RunState::done;
  run_.is_late = run_.deadline && run_.ended > *run_.deadline;
  try_to_write([&] { contents_.save(); });
  if (before_.state == RunState::done && run_.state == RunState::done && !has_done_) {
    run_ = before_;
    save();
    return say(fmt::format("{}: nothing was left to do", pipeline_.name));
  }
  save();
  const auto took = format_seconds(static_cast<double>(run_.ended - run_.started));
  const std::string message = fmt::format("{}: {} in {}{}", pipeline_.name, to_text(run_.state),
                                          took, run_.is_late ? ", late" : "");
  say(message);
  if (run_.is_late && !run_.foreseen_late) teller_.tell("late", message, run_);
  if (run_.state == RunState::done) teller_.tell("done", message, run_);
}

// A record that cannot be written is no reason to leave steps alone, nor to tell nobody of what
// becomes of them.
void Runner::save() {
  try_to_write([&] { state_.save(run_); });
}

void Runner::try_to_write(const std::function<void()>& write) {
  try {
    write();
  } catch (const Error& error) {
    if (!std::exchange(has_warned_, true))
      say(fmt::format("what becomes of steps cannot be noted, and is done again: {}",
                      error.what()));
  }
}

void Runner::cancel_job(const Step& step) const {
  const auto problem = steps_.cancel_job(step, state_.log(run_.scheduled, step.name), program_);
  if (!problem.empty()) say(fmt::format("{}: {}", step.name, problem));
}

void Runner::say(const std::string& line) const {
  fmt::print("{}  {}\n", format_local(std::time(nullptr), "%H:%M:%S"), line);
  std::fflush(stdout);
}

}  // namespace sullae::pipeline
