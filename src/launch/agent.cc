#include "launch/agent.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/deadline.h"
#include "base/descriptors.h"
#include "base/environment.h"
#include "base/fd.h"
#include "base/host.h"
#include "base/system_error.h"
#include "launch/binding.h"
#include "launch/blas_kernels.h"
#include "launch/descendants.h"
#include "launch/frames.h"
#include "launch/process.h"

namespace sullae {
namespace {

struct Process {
  int rank = 0;
  pid_t pid = 0;
  UniqueFd standard_output;
  UniqueFd standard_error;
  std::optional<int> status;
  std::optional<Deadline> drain;  // set when the process has ended
  bool over = false;              // its end has been reported, after all that it wrote
};

// After which what does not end, although it was killed, is left to itself.
constexpr std::chrono::seconds kKillLimit{10};

constexpr int kNotFound = 127;  // a shell's exit code for what cannot be run

class Agent {
 public:
  Agent(int input, int output) : input_(input), output_(output) {
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigaddset(&mask, SIGTERM);
    sigprocmask(SIG_BLOCK, &mask, &mask_before_);
    signals_ = UniqueFd(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
    adopt_orphans();
  }
  ~Agent() { sigprocmask(SIG_SETMASK, &mask_before_, nullptr); }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  AgentEnd run() {
    use_better_blas_kernels();  // the ranks inherit it; what their environment says comes after
    if (!write_frame(output_, FrameType::ready, -1, "")) return {.exit_code = 1};
    try {
      while (!finished()) turn();
    } catch (const std::exception& error) {  // also for a frame that is none: the ranks end
      write_frame(output_, FrameType::failed, -1, error.what());
    }
    kill_descendants(kKillLimit);
    return {.was_asked_to_go = was_asked_to_go_};
  }

 private:
  bool finished() const {
    return launcher_gone_ ||
           (started_ && !stays_ &&
            std::ranges::all_of(processes_, [](const Process& process) { return process.over; }));
  }

  void turn() {
    std::vector<pollfd> polled{{input_, POLLIN, 0}, {signals_.get(), POLLIN, 0}};
    for (const Process& process : processes_) {
      polled.push_back({process.standard_output.get(), POLLIN, 0});
      polled.push_back({process.standard_error.get(), POLLIN, 0});
    }
    if (::poll(polled.data(), polled.size(), poll_limit()) < 0 && errno != EINTR) {
      throw system_error("poll");
    }
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      Process& process = processes_[i];
      if (polled[2 + 2 * i].revents != 0)
        pass_on(process, process.standard_output, FrameType::standard_output);
      if (polled[3 + 2 * i].revents != 0)
        pass_on(process, process.standard_error, FrameType::standard_error);
    }
    if (polled[1].revents != 0) on_signals();
    if (polled[0].revents != 0) listen();
    for (Process& process : processes_) report_end(process);
  }

  int poll_limit() const {
    auto limit = std::chrono::milliseconds{60000};
    for (const Process& process : processes_) {
      if (process.drain && !process.over) limit = std::min(limit, process.drain->remaining());
    }
    return static_cast<int>(limit.count());
  }

  // The launcher stops listening when all ranks have ended, so their output goes first. Something
  // that left the rank's process group may hold the pipes open: that is not waited for long.
  void report_end(Process& process) {
    if (process.over || !process.status) return;
    const bool drained = !process.standard_output && !process.standard_error;
    if (!drained && !process.drain->passed()) return;
    process.standard_output.reset();
    process.standard_error.reset();
    process.over = true;
    send(FrameType::ended, process.rank, fmt::to_string(*process.status));
  }

  void send(FrameType type, int rank, std::string_view payload) {
    if (!write_frame(output_, type, rank, payload)) launcher_gone_ = true;
  }

  void pass_on(Process& process, UniqueFd& stream, FrameType type) {
    std::array<char, 65536> buffer;
    const auto n = ::read(stream.get(), buffer.data(), buffer.size());
    if (n > 0) {
      send(type, process.rank, {buffer.data(), static_cast<std::size_t>(n)});
    } else if (n == 0 || errno != EINTR) {
      stream.reset();
    }
  }

  void on_signals() {
    signalfd_siginfo info;
    while (::read(signals_.get(), &info, sizeof info) > 0) {
      // Who asks gives it some time, which the ranks have for their step.
      if (info.ssi_signo != SIGTERM) continue;
      was_asked_to_go_ = true;
      send(FrameType::taken_back, -1, "");
    }
    int status = 0;
    while (const pid_t pid = ::waitpid(-1, &status, WNOHANG)) {
      if (pid < 0) return;
      for (Process& process : processes_) {
        if (process.pid != pid || process.status) continue;
        process.status = status;
        process.drain.emplace(kDrainLimit, "the drain limit");
        // What the rank started goes with it; otherwise its output would never end either.
        ::kill(-pid, SIGKILL);
      }
    }
  }

  void listen() {
    std::array<char, 65536> buffer;
    const auto n = ::read(input_, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) {
      launcher_gone_ = true;
      return;
    }
    reader_.append({buffer.data(), static_cast<std::size_t>(n)});
    while (auto frame = reader_.next()) {
      if (frame->type == FrameType::start) start(AgentSpec::from_json(frame->payload));
      if (frame->type == FrameType::signal)
        send_signal(frame->rank,
                    static_cast<int>(parse_integer(frame->payload, "a signal", 1, SIGRTMAX)));
    }
  }

  void send_signal(int rank, int signal) {
    for (const Process& process : processes_) {
      const bool is_meant = rank < 0 || process.rank == rank;
      if (is_meant && !process.status) ::kill(-process.pid, signal);
    }
  }

  void start(AgentSpec spec) {
    if (spec.slots.empty()) {
      spec.host_slots = static_cast<int>(spec.ranks.size());
      for (int slot = 0; slot < spec.host_slots; ++slot) spec.slots.push_back(slot);
    }
    const auto cpus =
        divide_cpus(allowed_cpus(), available_cpus(), spec.host_slots, spec.cpus_per_rank);
    // Two pipes a rank.
    constexpr std::size_t kOwn = 256;
    allow_descriptors(kOwn + 2 * (processes_.size() + spec.ranks.size()));
    std::erase_if(processes_, &Process::over);
    for (std::size_t i = 0; i < spec.ranks.size(); ++i) {
      RankCpus own = cpus[static_cast<std::size_t>(spec.slots[i])];
      if (!spec.bind) own.cpus.clear();
      try {
        start_rank(spec, spec.ranks[i], spec.slots[i], own);
      } catch (const Error& error) {
        // A program that was taken away meanwhile, say, is no reason for others to end.
        if (!spec.may_fail) throw;
        send(FrameType::standard_error, spec.ranks[i], fmt::format("{}\n", error.what()));
        send(FrameType::ended, spec.ranks[i], fmt::to_string(kNotFound << 8));
      }
    }
    started_ = true;
    stays_ = spec.more_to_come;
  }

  void start_rank(const AgentSpec& spec, int rank, int local_rank, const RankCpus& cpus) {
    Pipe standard_output = make_pipe();
    Pipe standard_error = make_pipe();
    ChildOptions child{.words = spec.command,
                       .directory = spec.directory,
                       .output = standard_output.write.get(),
                       .errors = standard_error.write.get(),
                       .signal_at_end = SIGKILL};
    for (const auto& [name, value] : spec.environment) child.environment[name] = value;
    child.environment["SULLAE_RANK"] = fmt::to_string(rank);
    child.environment["SULLAE_SIZE"] = fmt::to_string(spec.size);
    child.environment["SULLAE_LOCAL_RANK"] = fmt::to_string(local_rank);
    child.environment["SULLAE_LOCAL_SIZE"] = fmt::to_string(spec.host_slots);
    child.prepare = [&] {
      limit_to(cpus);
    };
    const pid_t pid = start_child(child);
    processes_.push_back(
        {rank, pid, std::move(standard_output.read), std::move(standard_error.read), std::nullopt});
    send(FrameType::started, rank, fmt::to_string(pid));
  }

  // In the child: unless its environment says how many threads it has.
  static void limit_to(const RankCpus& cpus) {
    if (!cpus.cpus.empty()) {
      cpu_set_t set;
      CPU_ZERO(&set);
      for (const int cpu : cpus.cpus) CPU_SET(cpu, &set);
      ::sched_setaffinity(0, sizeof set, &set);
    }
    ::setenv("OMP_NUM_THREADS", fmt::to_string(cpus.threads).c_str(), /*overwrite=*/0);
    limit_spinning();
  }

  int input_;
  int output_;
  UniqueFd signals_;
  FrameReader reader_;
  std::vector<Process> processes_;
  bool started_ = false;
  bool stays_ = false;  // although all ranks have ended
  bool launcher_gone_ = false;
  bool was_asked_to_go_ = false;
  sigset_t mask_before_{};
};

// Arguments, folders and variables are bytes, and JSON has texts: each byte is the letter of its
// number.
std::string text_of(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text += c;
    } else {
      text += static_cast<char>(0xC0 | byte >> 6);
      text += static_cast<char>(0x80 | (byte & 0x3F));
    }
  }
  return text;
}

std::string bytes_of(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_two = byte >= 0x80 && i + 1 < text.size();
    bytes += is_two ? static_cast<char>(byte << 6 | (static_cast<unsigned char>(text[++i]) & 0x3F))
                    : text[i];
  }
  return bytes;
}

}  // namespace

std::string AgentSpec::to_json() const {
  std::vector<std::string> words;
  for (const auto& word : command) words.push_back(text_of(word));
  std::map<std::string, std::string> variables;
  for (const auto& [name, value] : environment) variables.emplace(text_of(name), text_of(value));
  return nlohmann::json{{"command", words},
                        {"directory", text_of(directory)},
                        {"environment", variables},
                        {"ranks", ranks},
                        {"size", size},
                        {"slots", slots},
                        {"host_slots", host_slots},
                        {"more_to_come", more_to_come},
                        {"may_fail", may_fail},
                        {"bind", bind},
                        {"cpus_per_rank", cpus_per_rank}}
      .dump();
}

AgentSpec AgentSpec::from_json(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  AgentSpec spec;
  for (const auto& word : json.at("command")) spec.command.push_back(bytes_of(word));
  spec.directory = bytes_of(json.at("directory"));
  for (const auto& [name, value] : json.at("environment").items())
    spec.environment.emplace(bytes_of(name), bytes_of(value));
  json.at("ranks").get_to(spec.ranks);
  json.at("size").get_to(spec.size);
  json.at("slots").get_to(spec.slots);
  json.at("host_slots").get_to(spec.host_slots);
  json.at("more_to_come").get_to(spec.more_to_come);
  json.at("may_fail").get_to(spec.may_fail);
  json.at("bind").get_to(spec.bind);
  json.at("cpus_per_rank").get_to(spec.cpus_per_rank);
  return spec;
}

AgentEnd run_agent(int input, int output) {
  // Ctrl-C goes to the terminal's whole process group; what to do about it is the launcher's
  // decision.
  ::setpgid(0, 0);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGINT, SIG_IGN);
  return Agent(input, output).run();
}

}  // namespace sullae
