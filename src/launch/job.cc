#include "launch/launcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/host.h"
#include "base/system_error.h"
#include "launch/agent.h"
#include "launch/descendants.h"
#include "launch/frames.h"
#include "launch/host_launcher.h"
#include "launch/job_signals.h"
#include "launch/output.h"
#include "launch/remote_shell.h"
#include "transport/store/store_server.h"

namespace sullae {
namespace {

constexpr int kTimeoutExitCode = 124;

struct RunningAgent {
  Placement placement;
  bool is_here = true;
  AgentChannel channel;
  FrameReader reader;
  bool ready = false;
};

std::string describe_status(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                       ::strsignal(WTERMSIG(status)));
  }
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void say(const std::string& text) {
  const std::string line = fmt::format("sullae run: {}\n", text);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

// What only the job's processes know.
std::string draw_secret() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw system_error("getrandom");
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

class Job {
 public:
  explicit Job(const JobOptions& options)
      : options_(options),
        output_({.directory = options.output_directory,
                 .tag = options.tag_output,
                 .colour = ::isatty(STDOUT_FILENO) == 1}),
        running_(options.ranks) {
    adopt_orphans();
  }

  // Agents kill their ranks when their input closes.
  ~Job() {
    for (RunningAgent& agent : agents_) {
      agent.channel.input.reset();
      agent.channel.output.reset();
    }
    wait_for_agents();
    kill_descendants();
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int run() {
    const std::vector<Host> here{{"localhost", options_.ranks}};
    const auto placements =
        place_ranks(options_.hosts.empty() ? here : options_.hosts, options_.ranks);
    std::vector<std::unique_ptr<HostLauncher>> launchers;
    for (const Placement& placement : placements)
      launchers.push_back(make_host_launcher(placement.host.name, options_));
    start_store(launchers.size() == 1 && launchers.front()->is_here());
    for (std::size_t i = 0; i < placements.size(); ++i) start_agent(placements[i], *launchers[i]);
    connect_deadline_.emplace(options_.connect_timeout, "--connect-timeout");
    if (options_.timeout.count() > 0) job_deadline_.emplace(options_.timeout, "--timeout");
    while (running_ > 0) turn();
    return exit_code_;
  }

 private:
  void start_store(bool all_here) {
    if (all_here && options_.store_port == 0) {
      store_address_ = fmt::format("unix:sullae-run-{}-{}", ::getuid(), ::getpid());
      store_.emplace(StoreAddress::parse(store_address_), secret_);
      return;
    }
    StoreAddress everywhere;
    everywhere.host = "0.0.0.0";
    everywhere.port = options_.store_port;
    store_.emplace(everywhere, secret_);
    store_address_ = fmt::format(
        "{}:{}", options_.store_host.empty() ? host_name() : options_.store_host, store_->port());
  }

  void start_agent(const Placement& placement, HostLauncher& launcher) {
    agents_.push_back(
        {.placement = placement,
         .is_here = launcher.is_here(),
         .channel = launcher.start({own_program(), "agent"}, signals_.original_mask())});
  }

  void turn() {
    std::vector<pollfd> polled{{signals_.fd(), POLLIN, 0}};
    for (const RunningAgent& agent : agents_)
      polled.push_back({agent.channel.output.get(), POLLIN, 0});
    if (::poll(polled.data(), polled.size(), poll_limit()) < 0 && errno != EINTR)
      throw system_error("poll");
    if (polled[0].revents != 0) on_signals();
    for (std::size_t i = 0; i < agents_.size(); ++i) {
      if (polled[i + 1].revents != 0) listen(agents_[i]);
    }
    check_deadlines();
    if (!output_.open() && !ending_) end_all(SIGTERM, 128 + SIGPIPE);
  }

  int poll_limit() const {
    auto limit = std::chrono::milliseconds{1000};
    for (const auto* deadline : {&connect_deadline_, &job_deadline_, &kill_deadline_}) {
      if (*deadline) limit = std::min(limit, (*deadline)->remaining());
    }
    return static_cast<int>(limit.count());
  }

  void check_deadlines() {
    if (connect_deadline_ && std::ranges::all_of(agents_, &RunningAgent::ready))
      connect_deadline_.reset();
    if (connect_deadline_ && connect_deadline_->passed()) {
      std::vector<std::string> silent;
      for (const RunningAgent& agent : agents_) {
        if (!agent.ready) silent.push_back(agent.placement.host.name);
      }
      throw TimeoutError(fmt::format("{} did not answer {}", fmt::join(silent, ", "),
                                     connect_deadline_->describe()));
    }
    if (job_deadline_ && job_deadline_->passed()) {
      say(fmt::format("the job did not end {}; ending all ranks", job_deadline_->describe()));
      job_deadline_.reset();
      end_all(SIGTERM, kTimeoutExitCode);
    }
    if (kill_deadline_ && kill_deadline_->passed()) {
      kill_deadline_.reset();
      signal_all(SIGKILL);
    }
  }

  void on_signals() {
    while (const auto signal = signals_.next()) {
      if (++interrupts_ == 1) {
        say(fmt::format("{}; ending all ranks (once more kills them)", ::strsignal(*signal)));
        end_all(*signal, 128 + *signal);
      } else {
        signal_all(SIGKILL);
      }
    }
  }

  void listen(RunningAgent& agent) {
    std::array<char, 65536> buffer;
    const auto n = ::read(agent.channel.output.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) return on_agent_gone(agent);
    agent.reader.append({buffer.data(), static_cast<std::size_t>(n)});
    while (auto frame = agent.reader.next()) on_frame(agent, *frame);
  }

  void on_agent_gone(RunningAgent& agent) {
    agent.channel.output.reset();
    const bool unfinished = std::ranges::any_of(agent.placement.ranks,
                                                [&](int rank) { return !ended_.contains(rank); });
    if (!unfinished) return;
    if (!agent.ready) {
      int status = 0;
      if (agent.channel.pid == 0)
        throw Error(
            fmt::format("host {} cannot be used: its agent has gone", agent.placement.host.name));
      ::waitpid(agent.channel.pid, &status, 0);
      throw Error(fmt::format("host {} cannot be used: the command that starts its agent {}",
                              agent.placement.host.name, describe_status(status)));
    }
    if (!ending_)
      say(fmt::format("the connection to host {} was lost; ending all ranks",
                      agent.placement.host.name));
    for (const int rank : agent.placement.ranks) {
      if (ended_.insert(rank).second) --running_;
    }
    end_all(SIGTERM, 1);
  }

  void on_frame(RunningAgent& agent, const Frame& frame) {
    switch (frame.type) {
      case FrameType::ready:
        agent.ready = true;
        write_frame(agent.channel.input.get(), FrameType::start, -1, spec_for(agent).to_json());
        return;
      case FrameType::started:
        pids_[frame.rank] = frame.payload;
        return;
      case FrameType::standard_output:
        return output_.write(frame.rank, STDOUT_FILENO, frame.payload);
      case FrameType::standard_error:
        return output_.write(frame.rank, STDERR_FILENO, frame.payload);
      case FrameType::ended:
        return on_rank_ended(agent, frame.rank, std::stoi(frame.payload));
      case FrameType::failed:
        throw Error(fmt::format("host {}: {}", agent.placement.host.name, frame.payload));
      case FrameType::start:
      case FrameType::signal:
        return;
    }
  }

  void on_rank_ended(const RunningAgent& agent, int rank, int status) {
    if (!ended_.insert(rank).second) return;
    --running_;
    if (status == 0 || ending_) return;
    const int others = running_;
    say(fmt::format("rank {} (process {} on {}) {}{}", rank, pids_[rank],
                    agent.is_here ? host_name() : agent.placement.host.name,
                    describe_status(status), others > 0 ? "; ending the other ranks" : ""));
    end_all(SIGTERM, exit_code_of(status));
  }

  // The first reason to end decides the exit code.
  void end_all(int signal, int exit_code) {
    if (ending_) return;
    ending_ = true;
    exit_code_ = exit_code;
    signal_all(signal);
    kill_deadline_.emplace(options_.grace, "the grace period");
  }

  void signal_all(int signal) {
    for (const RunningAgent& agent : agents_) {
      if (agent.ready) write_frame(agent.channel.input.get(), FrameType::signal, signal, "");
    }
    // A host that has not answered yet has nothing to end.
    if (std::ranges::none_of(agents_, &RunningAgent::ready)) running_ = 0;
  }

  AgentSpec spec_for(const RunningAgent& agent) const {
    AgentSpec spec{.command = options_.command,
                   .directory = std::filesystem::current_path().string(),
                   .environment = options_.environment,
                   .ranks = agent.placement.ranks,
                   .size = options_.ranks,
                   .cpus_per_rank = options_.cpus_per_rank,
                   .bind = options_.bind};
    if (!agent.is_here) {
      for (const auto& [name, value] : variables_for_other_hosts())
        spec.environment.try_emplace(name, value);
    }
    spec.environment.insert_or_assign("SULLAE_STORE", store_address_);
    spec.environment.insert_or_assign("SULLAE_SERVE_STORE", "0");
    spec.environment.insert_or_assign("SULLAE_JOB_SECRET", secret_);
    return spec;
  }

  void wait_for_agents() {
    // An agent needs moments; a remote shell that hangs is not waited for.
    const Deadline deadline(options_.grace, "the grace period");
    for (const RunningAgent& agent : agents_) {
      if (agent.channel.pid == 0) continue;
      while (::waitpid(agent.channel.pid, nullptr, WNOHANG) == 0 && !deadline.passed())
        ::poll(nullptr, 0, 5);
    }
  }

  const JobOptions& options_;
  JobSignals signals_;
  RankOutput output_;
  std::optional<StoreServer> store_;
  std::string store_address_;
  std::string secret_ = draw_secret();
  std::vector<RunningAgent> agents_;
  std::map<int, std::string> pids_;
  std::set<int> ended_;  // ranks
  int running_;
  bool ending_ = false;
  int exit_code_ = 0;
  int interrupts_ = 0;
  std::optional<Deadline> connect_deadline_;
  std::optional<Deadline> job_deadline_;
  std::optional<Deadline> kill_deadline_;
};

}  // namespace

int run_job(const JobOptions& options) {
  Job job(options);
  return job.run();
}

}  // namespace sullae
