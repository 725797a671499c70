#include "pipeline/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "cluster/command.h"
#include "pipeline/tell.h"
#include "sullae/error.h"

namespace sullae::pipeline {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHistory = 50;  // runs that are looked at

}  // namespace

Runner::Runner(const Pipeline& pipeline, const State& state, Time scheduled, fs::path program)
    : pipeline_(pipeline),
      state_(state),
      program_(std::move(program)),
      contents_(state.contents()),
      steps_(pipeline, state, scheduled, contents_),
      usual_(usual_of(state.runs(kHistory))),
      run_(state.run(scheduled).value_or(RunRecord{.scheduled = scheduled})) {
  if (!pipeline.deadline.empty())
    run_.deadline = deadline_after(scheduled, pipeline.deadline, "deadline");
}

RunRecord Runner::run(const std::function<bool()>& is_to_end) {
  take_up();
  for (;;) {
    if (is_to_end()) {
      interrupt();
      break;
    }
    begin_ready();
    if (active_.empty()) break;
    watch_deadline();
    constexpr std::chrono::milliseconds kTurn{50};
    std::this_thread::sleep_for(kTurn);
    // Whoever ends this may end the steps, too: that is no failure of theirs.
    if (is_to_end()) continue;
    for (auto one = active_.begin(); one != active_.end();) {
      // Another attempt comes in at the end.
      one = look_after(*one) ? active_.erase(one) : std::next(one);
    }
  }
  finish();
  return run_;
}

// Where a run before has ended, or was killed.
void Runner::take_up() {
  before_ = run_;
  // Who holds the lock is the only one: what runs of others is left over, of other times, too.
  for (const RunRecord& run : state_.runs(kHistory)) {
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
  run_.foreseen_late.reset();
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

void Runner::begin(const Step& step) {
  StepRecord& record = run_.steps[step.name];
  record.started = std::time(nullptr);
  attempts_before_[step.name] = record.attempts;
  try {
    std::string missing;
    inputs_[step.name] = steps_.contents(step.needs, missing);
    if (!missing.empty()) return fail(step, fmt::format("needs {}, which is not there", missing));
    if (was_done(step)) {
      // Of this run it is known when.
      const StepRecord& earlier = before_.steps[step.name];
      const bool is_of_this_run = earlier.state == StepState::done;
      record = is_of_this_run ? earlier
                              : StepRecord{.state = StepState::kept,
                                           .started = record.started,
                                           .ended = record.started,
                                           .attempts = record.attempts};
      save();
      return say(fmt::format("{}: was done before, of the same", step.name));
    }
    say(fmt::format("{}: begins", step.name));
    start_attempt(step);
  } catch (const Error& error) {
    fail(step, error.what());
  }
}

void Runner::start_attempt(const Step& step) {
  StepRecord& record = run_.steps[step.name];
  record.state = StepState::running;
  record.started = std::time(nullptr);
  const std::string command = steps_.command(step);
  std::vector<std::string> words{"/bin/sh", "-c", command};
  if (step.job) {
    // Submitted once, whoever is killed: the key is the same until the attempt has ended, or is of something else.
    std::vector<std::string> submit{program_.string(),
                                    "jobs",
                                    "submit",
                                    "--watch",
                                    "--name",
                                    fmt::format("{}-{}", pipeline_.name, step.name).substr(0, 64),
                                    "--idempotency-key",
                                    steps_.key(step, record.attempts, inputs_.at(step.name))};
    submit.insert(submit.end(), step.job->begin(), step.job->end());
    submit.insert(submit.end(), words.begin(), words.end());
    words = std::move(submit);
  }
  save();
  active_.push_back(
      {.step = &step,
       .process = StepProcess({.words = std::move(words),
                               .folder = pipeline_.folder,
                               .log = state_.log(run_.scheduled, step.name),
                               .environment = steps_.environment(step),
                               .mark = step.job ? "" : steps_.mark(run_.scheduled, step.name)}),
       .begun = Clock::now()});
}

// Whether the attempt is over.
bool Runner::look_after(Active& active) {
  const Step& step = *active.step;
  has_done_ = true;
  try {
    if (const auto code = active.process.ended()) {
      attempt_ended(step, *code, "");
      return true;
    }
    if (!step.time || Clock::now() - active.begun < *step.time) return false;
    if (step.job) cancel_job(step);
    StepProcess::stop({&active.process});
    constexpr int kTimedOut = 124;  // as timeout(1) has it
    attempt_ended(step, kTimedOut,
                  fmt::format("took longer than its time of {}",
                              format_seconds(static_cast<double>(step.time->count()))));
  } catch (const Error& error) {
    // What it needs or makes cannot be read, say: the others go on.
    fail(step, error.what());
  }
  return true;
}

void Runner::attempt_ended(const Step& step, int exit_code, const std::string& why) {
  StepRecord& record = run_.steps[step.name];
  const auto log = state_.log(run_.scheduled, step.name);
  ++record.attempts;
  record.exit_code = exit_code;
  if (exit_code == 0) return succeeded(step);
  const std::string reason = why.empty() ? fmt::format("ended with exit code {}", exit_code) : why;
  const int done = record.attempts - attempts_before_[step.name];
  if (done < step.attempts) {
    say(fmt::format("{}: {}; attempt {} of {}", step.name, reason, done + 1, step.attempts));
    return start_attempt(step);
  }
  fail(step, fmt::format("{}; {} ends with{}", reason, log.string(), last_lines_of(log)));
}

void Runner::succeeded(const Step& step) {
  StepRecord& record = run_.steps[step.name];
  record.ended = std::time(nullptr);
  std::string missing;
  const auto outputs = steps_.contents(step.makes, missing);
  if (!missing.empty()) return fail(step, fmt::format("ended well, and has not made {}", missing));
  record.state = StepState::done;
  state_.add(step.name, {.command = steps_.command(step),
                         .environment = steps_.settings(step),
                         .scheduled = run_.scheduled,
                         .inputs = inputs_[step.name],
                         .outputs = outputs});
  save();
  say(fmt::format("{}: done in {}", step.name,
                  format_seconds(static_cast<double>(record.ended - record.started))));
}

void Runner::fail(const Step& step, const std::string& reason) {
  StepRecord& record = run_.steps[step.name];
  record.state = StepState::failed;
  record.ended = std::time(nullptr);
  record.reason = reason;
  save();
  say(fmt::format("{}: FAILED: {}", step.name, reason));
  tell("failed", fmt::format("{}: step {} of {} failed: {}", pipeline_.name, step.name,
                             to_text(run_.scheduled), reason));
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
  const Forecast seen = forecast(pipeline_, run_, usual_, now);
  if (seen.end <= *run_.deadline) return;
  run_.foreseen_late = now;
  save();
  const bool has_passed = now > *run_.deadline;
  const std::string message =
      has_passed ? fmt::format("{}: LATE: the deadline, {}, has passed", pipeline_.name,
                               to_text(*run_.deadline))
                 : fmt::format(
                       "{}: WILL BE LATE: expected to be over at {}, {} after the deadline, {}"
                       " (the last step is {}, which usually takes {})",
                       pipeline_.name, to_text(seen.end),
                       format_seconds(static_cast<double>(seen.end - *run_.deadline)),
                       to_text(*run_.deadline), seen.last,
                       format_seconds(usual_.contains(seen.last) ? usual_.at(seen.last) : 0));
  say(message);
  tell("late", message);
}

void Runner::tell(const std::string& event, const std::string& message) {
  const auto& of = pipeline_.tell.of;
  if (std::ranges::find(of, event) != of.end())
    pipeline::tell(pipeline_.tell, pipeline_, event, message, run_);
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
  contents_.save();
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
  if (run_.is_late && !run_.foreseen_late) tell("late", message);
  if (run_.state == RunState::done) tell("done", message);
}

// The job that a step waits for, by the line in which `sullae jobs submit` has named it.
void Runner::cancel_job(const Step& step) const {
  std::ifstream stream(state_.log(run_.scheduled, step.name));
  const auto begin = fmt::format("{}-{}", pipeline_.name, step.name).substr(0, 64) + '-';
  std::string job;
  for (std::string line; std::getline(stream, line);) {
    const bool is_name = line.starts_with(begin) && line.size() > begin.size() &&
                         line.find_first_not_of("0123456789", begin.size()) == line.npos;
    if (is_name) job = line;
  }
  if (job.empty()) return;
  const auto answer = cluster::ask({.words = {program_.string(), "jobs", "cancel", job}});
  if (answer.exit_code != 0) say(fmt::format("{}: {}", step.name, answer.errors));
}

void Runner::say(const std::string& line) const {
  fmt::print("{}  {}\n", format_local(std::time(nullptr), "%H:%M:%S"), line);
  std::fflush(stdout);
}

}  // namespace sullae::pipeline
