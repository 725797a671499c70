// A step of a run, from its beginning to its end.
#include <fmt/format.h>

#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "pipeline/forecast.h"
#include "pipeline/runner.h"
#include "sullae/error.h"

namespace sullae::pipeline {

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
    // Submitted once, whoever is killed: the key is the same until the attempt has ended, or is of
    // something else.
    std::vector<std::string> submit{program_.string(),
                                    "jobs",
                                    "submit",
                                    "--watch",
                                    "--name",
                                    steps_.job_name(step),
                                    "--idempotency-key",
                                    steps_.key(step, record.attempts, inputs_.at(step.name))};
    submit.insert(submit.end(), step.job->begin(), step.job->end());
    submit.insert(submit.end(), words.begin(), words.end());
    words = std::move(submit);
  }
  save();
  const auto log = state_.log(run_.scheduled, step.name);
  std::error_code is_new;
  const auto log_begin = std::filesystem::file_size(log, is_new);
  active_.push_back(
      {.step = &step,
       .process = StepProcess({.words = std::move(words),
                               .folder = pipeline_.folder,
                               .log = log,
                               .environment = steps_.environment(step),
                               .mark = step.job ? "" : steps_.mark(run_.scheduled, step.name)}),
       .begun = Clock::now(),
       .log_begin = is_new ? 0 : log_begin});
}

// Whether the attempt is over.
bool Runner::look_after(Active& active) {
  const Step& step = *active.step;
  has_done_ = true;
  try {
    if (!has_ended(active)) return false;
    attempt_ended(active);
  } catch (const Error& error) {
    // What it needs or makes cannot be read, say: the others go on.
    fail(step, error.what());
  }
  return true;
}

// By itself, or stopped since its time is over.
bool Runner::has_ended(Active& active) const {
  const Step& step = *active.step;
  if (active.exit_code) return true;
  if ((active.exit_code = active.process.ended())) return true;
  if (!step.time || Clock::now() - active.begun < *step.time) return false;
  if (step.job) cancel_job(step);
  StepProcess::stop({&active.process});
  constexpr int kTimedOut = 124;  // as timeout(1) has it
  active.exit_code = kTimedOut;
  active.why = fmt::format("took longer than its time of {}",
                           format_seconds(static_cast<double>(step.time->count())));
  return true;
}

void Runner::attempt_ended(const Active& active) {
  const Step& step = *active.step;
  const int exit_code = *active.exit_code;
  StepRecord& record = run_.steps[step.name];
  const auto log = state_.log(run_.scheduled, step.name);
  record.exit_code = exit_code;
  if (exit_code == 0) return succeeded(step);
  ++record.attempts;
  const std::string reason =
      active.why.empty() ? fmt::format("ended with exit code {}", exit_code) : active.why;
  const int done = record.attempts - attempts_before_[step.name];
  if (done < step.attempts) {
    say(fmt::format("{}: {}; attempt {} of {}", step.name, reason, done + 1, step.attempts));
    return start_attempt(step);
  }
  const auto said = last_lines_of(log, active.log_begin);
  fail(step, said.empty() ? fmt::format("{}, and has printed nothing", reason)
                          : fmt::format("{}; {} ends with{}", reason, log.string(), said));
}

void Runner::succeeded(const Step& step) {
  StepRecord& record = run_.steps[step.name];
  record.ended = std::time(nullptr);
  std::string missing;
  const auto outputs = steps_.contents(step.makes, missing);
  // Whoever is interrupted before has the same attempt again: of a job, the one that has ended.
  ++record.attempts;
  if (!missing.empty()) return fail(step, fmt::format("ended well, and has not made {}", missing));
  record.state = StepState::done;
  try_to_write([&] {
    state_.add(step.name, {.command = steps_.command(step),
                           .environment = steps_.settings(step),
                           .scheduled = run_.scheduled,
                           .inputs = inputs_[step.name],
                           .outputs = outputs});
  });
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
  teller_.tell("failed",
               fmt::format("{}: step {} of {} failed: {}", pipeline_.name, step.name,
                           to_text(run_.scheduled), reason),
               run_);
}

}  // namespace sullae::pipeline
