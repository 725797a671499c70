#include "launch/job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "base/end_signals.h"
#include "base/environment.h"
#include "base/fd.h"
#include "base/host.h"
#include "base/secret.h"
#include "base/system_error.h"
#include "launch/descendants.h"
#include "launch/process.h"
#include "launch/remote_shell.h"
#include "transport/settings.h"
#include "transport/store/listen.h"

namespace sullae {

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

namespace {

thread_local RankOutput* output_of_job = nullptr;  // behind what its ranks have written

// The one that is set: parameter servers may have been started with it before.
std::string secret_of_job() {
  const std::string given = RendezvousSettings::from(process_environment()).job_secret;
  return given.empty() ? draw_secret() : given;
}

}  // namespace

void say(const std::string& text) {
  if (output_of_job != nullptr) return output_of_job->say(fmt::format("sullae run: {}", text));
  const std::string line = fmt::format("sullae run: {}\n", text);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

Job::Job(const JobOptions& options)
    : options_(options),
      output_({.directory = options.output_directory,
               .tag = options.tag_output,
               .colour = ::isatty(STDOUT_FILENO) == 1,
               .ranks = options.parameter_servers ? options.ranks : INT_MAX,
               .append = options.append_output}),
      secret_(secret_of_job()),
      id_(fmt::format("{}-{}-{}", host_name(), ::getpid(), std::time(nullptr))) {
  adopt_orphans();
  output_of_job = &output_;
}

// Agents kill their ranks when their input closes.
Job::~Job() {
  for (RunningAgent& agent : agents_) {
    agent.channel.input.reset();
    agent.channel.output.reset();
  }
  wait_for_agents();
  const auto left = kill_descendants(options_.grace);
  if (!left.empty())
    say(fmt::format("processes {} have not ended although they were killed",
                    fmt::join(left, ", ")));
  output_of_job = nullptr;
}

int Job::run() {
  job_deadline_ = options_.deadline;
  start();
  while (!finished() && !nothing_started_) turn();
  finish_output();
  return exit_code_;
}

void Job::start_store(bool all_here, StoreServer::Listener listener) {
  if (all_here && options_.store_port == 0) {
    // Containers that share the host's network share these names, and have process numbers of their
    // own.
    store_address_ = fmt::format("unix:sullae-run-{}-{}-{}", ::getuid(), ::getpid(), draw_secret());
    store_address_here_ = store_address_;
    store_.emplace(StoreAddress::parse(store_address_), secret_, std::move(listener));
    return;
  }
  StoreAddress everywhere;
  everywhere.host = kEverywhere;
  everywhere.port = options_.store_port;
  store_.emplace(everywhere, secret_, std::move(listener));
  store_address_ = fmt::format(
      "{}:{}", options_.store_host.empty() ? host_name() : options_.store_host, store_->port());
  store_address_here_ = fmt::format("127.0.0.1:{}", store_->port());
}

RunningAgent& Job::start_agent(const std::string& host) {
  const auto launcher = make_host_launcher(host, options_);
  agents_.push_back({.host = host,
                     .is_here = launcher->is_here(),
                     .channel = launcher->start({own_program(), "agent"})});
  ::fcntl(agents_.back().channel.input.get(), F_SETFL, O_NONBLOCK);
  connect_deadline_.emplace(options_.connect_timeout, "--connect-timeout");
  return agents_.back();
}

void Job::start_processes(RunningAgent& agent, AgentSpec spec) {
  if (spec.command.empty()) {
    spec.command = options_.command;
    spec.cpus_per_rank = options_.cpus_per_rank;
    spec.bind = options_.bind;
  }
  spec.directory = std::filesystem::current_path().string();
  for (const auto& [name, value] : options_.environment) spec.environment.try_emplace(name, value);
  if (!agent.is_here) {
    for (const auto& [name, value] : variables_for_other_hosts())
      spec.environment.try_emplace(name, value);
  }
  // Where this host's name leads is for others to know.
  spec.environment.insert_or_assign("SULLAE_STORE",
                                    agent.is_here ? store_address_here_ : store_address_);
  spec.environment.insert_or_assign("SULLAE_SERVE_STORE", "0");
  spec.environment.insert_or_assign("SULLAE_JOB_SECRET", secret_);
  spec.environment.insert_or_assign("SULLAE_JOB_ID", id_);
  agent.ranks.insert(spec.ranks.begin(), spec.ranks.end());
  if (agent.ready) {
    send_frame(agent, FrameType::start, -1, spec.to_json());
  } else {
    agent.to_start.push_back(std::move(spec));
  }
}

void Job::turn() {
  std::vector<pollfd> polled{{signals_.fd(), POLLIN, 0}};
  const std::size_t agents = agents_.size();
  // Where nobody takes what ranks write, they wait; but not in a job that ends, whose agents are to
  // hear of it.
  const bool has_room = !output_.is_full() || ending_;
  if (!has_room) on_pause();
  for (const RunningAgent& agent : agents_) {
    polled.push_back({has_room ? agent.channel.output.get() : -1, POLLIN, 0});
    polled.push_back({agent.unsent.empty() ? -1 : agent.channel.input.get(), POLLOUT, 0});
  }
  const std::size_t own = polled.size();
  add_to_poll(polled);
  const std::size_t others = polled.size() - own;
  output_.add_to_poll(polled);
  if (::poll(polled.data(), polled.size(), time_to_wait()) < 0 && errno != EINTR)
    throw system_error("poll");
  if (polled[0].revents != 0) on_signals();
  for (std::size_t i = 0; i < agents; ++i) {
    if (polled[2 * i + 1].revents != 0) listen(agents_[i]);
    if (polled[2 * i + 2].revents != 0) send_on(agents_[i]);
  }
  after_poll(std::span(polled).subspan(own, others));
  output_.send_on();
  check_deadlines();
  if (!output_.open() && !ending_) {
    asked_to_end_ = true;
    end_all(SIGTERM, 128 + SIGPIPE);
  }
}

// As long as somebody takes it, or nobody ends the job.
void Job::finish_output() {
  constexpr std::chrono::seconds kLastMoment{1};
  output_.finish_all();
  std::optional<Deadline> limit;
  bool is_asked = asked_to_end_;
  while (output_.has_more() && !(limit && limit->passed())) {
    if (is_asked && !limit) limit.emplace(kLastMoment, "the limit for the last output");
    std::vector<pollfd> polled{{signals_.fd(), POLLIN, 0}};
    output_.add_to_poll(polled);
    ::poll(polled.data(), polled.size(), 100);
    output_.send_on();
    // The job is over, and what became of it stays so.
    is_asked = is_asked || signals_.next() || (job_deadline_ && job_deadline_->passed());
  }
}

void Job::on_signals() {
  while (const auto signal = signals_.next()) {
    asked_to_end_ = true;
    const auto now = std::chrono::steady_clock::now();
    if (interrupts_ == 1 && now - interrupted_ < EndSignals::kSameRequest) continue;
    if (++interrupts_ == 1) {
      interrupted_ = now;
      say(fmt::format("{}; ending all ranks (once more kills them)", ::strsignal(*signal)));
      ask_all_to_end(signal_for_ranks(*signal), 128 + *signal);
    } else {
      kill_all();
    }
  }
}

// A terminal that is gone is a request to end, which programs know as SIGTERM; so do the ranks of
// an elastic job, who then go together.
int Job::signal_for_ranks(int signal) const {
  return signal == SIGHUP || options_.elastic ? SIGTERM : signal;
}

void Job::listen(RunningAgent& agent) {
  std::array<char, 65536> buffer;
  const auto n = ::read(agent.channel.output.get(), buffer.data(), buffer.size());
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n <= 0) return on_agent_gone(agent);
  try {
    agent.reader.append({buffer.data(), static_cast<std::size_t>(n)});
    while (auto frame = agent.reader.next()) on_frame(agent, *frame);
  } catch (const NoFrame& error) {
    on_agent_failed(agent, error.what());
  }
}

void Job::give_up(RunningAgent& agent, const std::string& why) {
  agent.gone = true;
  agent.channel.input.reset();
  agent.channel.output.reset();
  lose(agent, why);
}

void Job::lose(RunningAgent& agent, const std::string& why) {
  // An agent also goes when all is done: then no host was lost.
  if (options_.on_host_gone && !ending_ && !agent.ranks.empty()) options_.on_host_gone(agent.host);
  for (const int rank : std::exchange(agent.ranks, {})) output_.finish(rank);
  on_host_lost(agent, why);
}

void Job::on_agent_failed(RunningAgent&, const std::string& why) { throw Error(why); }

void Job::on_host_taken_back(RunningAgent&, const std::string& why) {
  if (!ending()) say(why + "; ending all ranks");
  ask_all_to_end(SIGTERM, 128 + SIGTERM);
}

void Job::on_agent_gone(RunningAgent& agent) {
  agent.channel.output.reset();
  agent.gone = true;
  if (agent.ready)
    return lose(agent, fmt::format("the connection to host {} was lost", agent.host));
  if (agent.channel.pid == 0)
    return lose(agent, fmt::format("host {} cannot be used: its agent has gone", agent.host));
  constexpr std::chrono::seconds kLimit{1};
  const auto status = wait_for_end(agent.channel.pid, Deadline(kLimit, "the limit for its end"));
  if (!status) kill_and_wait(agent.channel.pid);
  lose(agent, fmt::format("host {} cannot be used: the command that starts its agent {}",
                          agent.host, status ? describe_status(*status) : "has closed its output"));
}

void Job::on_frame(RunningAgent& agent, const Frame& frame) {
  switch (frame.type) {
    case FrameType::ready:
      agent.ready = true;
      for (const AgentSpec& spec : std::exchange(agent.to_start, {})) {
        if (!ending_) {
          send_frame(agent, FrameType::start, -1, spec.to_json());
          continue;
        }
        for (const int rank : spec.ranks) {
          agent.ranks.erase(rank);
          on_process_ended(agent, rank, 0);
        }
      }
      return;
    case FrameType::started:
      pids_[frame.rank] = frame.payload;
      if (options_.on_started) options_.on_started(frame.rank, agent.host);
      return;
    case FrameType::standard_output:
      return output_.write(frame.rank, STDOUT_FILENO, frame.payload);
    case FrameType::standard_error:
      return output_.write(frame.rank, STDERR_FILENO, frame.payload);
    case FrameType::ended:
      agent.ranks.erase(frame.rank);
      output_.finish(frame.rank);
      return on_process_ended(
          agent, frame.rank,
          static_cast<int>(parse_integer(frame.payload, "the end of a process", 0, INT_MAX)));
    case FrameType::taken_back:
      if (options_.on_host_gone && !ending_) options_.on_host_gone(agent.host);
      return on_host_taken_back(agent, fmt::format("host {} is taken back", agent.host));
    case FrameType::failed:
      return on_agent_failed(agent, fmt::format("host {}: {}", agent.host, frame.payload));
    case FrameType::start:
    case FrameType::signal:
      return;
  }
}

void Job::ask_all_to_end(int signal, int exit_code) {
  if (!ending_) on_asked_to_end();
  end_all(signal, exit_code, options_.grace_when_asked);
}

void Job::end_all(int signal, int exit_code, std::chrono::milliseconds grace) {
  if (ending_) return;
  ending_ = true;
  exit_code_ = exit_code;
  signal_all(signal);
  kill_deadline_.emplace(grace, "the grace period");
}

void Job::send_signal(RunningAgent& agent, int rank, int signal) {
  if (agent.ready && !agent.gone)
    send_frame(agent, FrameType::signal, rank, fmt::to_string(signal));
}

// An agent that waits for its output to be read reads nothing meanwhile: who waited for that would
// wait for ever.
void Job::send_frame(RunningAgent& agent, FrameType type, int rank, std::string_view payload) {
  agent.unsent += frame_of(type, rank, payload);
  send_on(agent);
}

void Job::send_on(RunningAgent& agent) {
  while (!agent.unsent.empty()) {
    const auto n = ::write(agent.channel.input.get(), agent.unsent.data(), agent.unsent.size());
    if (n > 0) {
      agent.unsent.erase(0, static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      agent.unsent.clear();  // it is gone, which its output says
    }
  }
}

void Job::signal_all(int signal) {
  for (RunningAgent& agent : agents_) send_signal(agent, -1, signal);
  // A host that has not answered yet has nothing to end.
  if (std::ranges::none_of(agents_, &RunningAgent::ready)) nothing_started_ = true;
}

}  // namespace sullae
