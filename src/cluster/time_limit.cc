#include "cluster/time_limit.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/local_time.h"
#include "launch/job.h"
#include "launch/job_signals.h"
#include "sullae/error.h"

namespace sullae::cluster {
namespace {

// For ranks to end and for the requeue; of short jobs, a quarter of their time.
constexpr std::chrono::seconds kMargin{30};

std::chrono::seconds margin_of(std::chrono::seconds left) { return std::min(kMargin, left / 4); }

}  // namespace

TimeLimit::TimeLimit(Engine& engine, const JobFolder& folder, const std::string& engine_id,
                     const Job& job, std::function<void()> on_reached)
    : on_reached_(std::move(on_reached)) {
  const auto now = Clock::now();
  // What no engine watches over.
  if (job.time && !engine.knows_times()) {
    at_ = now + *job.time - margin_of(*job.time);
    kind_ = Kind::time;
  }
  try {
    for (const EngineJob& one : engine.jobs_of(folder.path())) {
      if (one.id != engine_id || !one.time_left) continue;
      at_ = now + *one.time_left - margin_of(*one.time_left);
      kind_ = Kind::time;
    }
  } catch (const Error& error) {
    // Then the engine ends the attempt by itself, and what it says of it is all that is known.
    say(error.what());
  }
  if (!job.deadline.empty()) {
    const std::chrono::seconds left{parse_time(job.deadline, "deadline") - std::time(nullptr)};
    const auto at = now + left - margin_of(left);
    // Slurm shortens a job's limit to its deadline, in whole minutes: it is the deadline all the
    // same.
    constexpr std::chrono::seconds kRounding{90};
    if (!at_ || at < *at_ + kRounding) {
      at_ = at_ ? std::min(*at_, at) : at;
      kind_ = Kind::deadline;
    }
  }
  if (at_) thread_ = std::thread([this] { run(); });
}

TimeLimit::~TimeLimit() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void TimeLimit::run() {
  // The process's signals are the launcher's.
  block_signals();
  std::unique_lock lock(mutex_);
  if (changed_.wait_until(lock, *at_, [this] { return stopped_; })) return;
  reached_ = kind_;
  on_reached_();
}

}  // namespace sullae::cluster
