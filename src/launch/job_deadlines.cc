// What a job waits for, and for how long.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "launch/job.h"

namespace sullae {
namespace {

constexpr int kTimeoutExitCode = 124;

}  // namespace

int Job::time_to_wait() const {
  auto limit = poll_limit();
  for (const auto* deadline :
       {&connect_deadline_, &job_deadline_, &kill_deadline_, &killed_deadline_}) {
    if (*deadline) limit = std::min(limit, (*deadline)->remaining());
  }
  return static_cast<int>(limit.count());
}

void Job::on_pause() {
  if (connect_deadline_) connect_deadline_.emplace(options_.connect_timeout, "--connect-timeout");
}

void Job::check_deadlines() {
  const auto answers = [](const RunningAgent& agent) {
    return agent.ready || agent.gone;
  };
  if (connect_deadline_ && std::ranges::all_of(agents_, answers)) connect_deadline_.reset();
  if (connect_deadline_ && connect_deadline_->passed()) {
    const auto limit = connect_deadline_->describe();
    connect_deadline_.reset();
    std::vector<std::string> silent;
    for (const RunningAgent& agent : agents_) {
      if (!answers(agent)) silent.push_back(agent.host);
    }
    const auto why = fmt::format("{} did not answer {}", fmt::join(silent, ", "), limit);
    std::vector<RunningAgent*> lost;  // others may be started meanwhile
    for (RunningAgent& agent : agents_) {
      if (!answers(agent)) lost.push_back(&agent);
    }
    for (RunningAgent* const agent : lost) give_up(*agent, why);
  }
  if (job_deadline_ && job_deadline_->passed()) {
    say(fmt::format("the job did not end {}; ending all ranks", job_deadline_->describe()));
    job_deadline_.reset();
    asked_to_end_ = true;
    ask_all_to_end(SIGTERM, kTimeoutExitCode);
  }
  if (kill_deadline_ && kill_deadline_->passed()) {
    kill_deadline_.reset();
    kill_all();
  }
  if (killed_deadline_ && killed_deadline_->passed()) {
    killed_deadline_.reset();
    std::vector<RunningAgent*> silent;
    for (RunningAgent& agent : agents_) {
      if (!agent.gone && !agent.ranks.empty()) silent.push_back(&agent);
    }
    for (RunningAgent* const agent : silent) {
      const auto why = fmt::format(
          "host {} has not said that its ranks, which were killed, have ended", agent->host);
      say(why);
      give_up(*agent, why);
    }
  }
}

// Of a host that lost its power, or its network, nothing is heard any more, and nothing of a rank
// that waits for a disk.
void Job::kill_all() {
  signal_all(SIGKILL);
  // To kill them, and to say so, takes moments.
  if (!killed_deadline_) killed_deadline_.emplace(2 * options_.grace, "the grace period");
}

void Job::wait_for_agents() {
  // An agent needs moments; a remote shell that hangs is not waited for.
  const Deadline deadline(options_.grace, "the grace period");
  for (const RunningAgent& agent : agents_) {
    if (agent.channel.pid == 0) continue;
    while (::waitpid(agent.channel.pid, nullptr, WNOHANG) == 0 && !deadline.passed())
      ::poll(nullptr, 0, 5);
  }
}

}  // namespace sullae
