#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <thread>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/fd.h"
#include "base/host.h"
#include "base/version.h"
#include "cluster/coordinator.h"
#include "cluster/hello.h"
#include "cluster/job_folder.h"
#include "launch/agent.h"
#include "sullae/error.h"
#include "transport/store/lease.h"

namespace sullae::cluster {
namespace {

// A launcher answers at once; who listens there and says nothing is another program.
constexpr timeval kAnswerLimit{.tv_sec = 40, .tv_usec = 0};
constexpr std::size_t kMostAnswer = 4096;
constexpr std::chrono::seconds kBetweenAttempts{2};

std::optional<LauncherAddress> launcher_of(const JobFolder& folder, int attempt) {
  const int number = attempt > 0 ? attempt : folder.attempts();
  if (number == 0) return std::nullopt;
  return LauncherAddress::read(folder.attempt(number));
}

UniqueFd connect_to(const LauncherAddress& launcher) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(launcher.host.c_str(), fmt::to_string(launcher.port).c_str(), &hints, &found) !=
      0)
    return {};
  UniqueFd connected;
  for (const addrinfo* one = found; one != nullptr && !connected; one = one->ai_next) {
    UniqueFd socket(::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol));
    // The kernel's own limit is two minutes, of which the next address would have none.
    constexpr timeval kConnectLimit{.tv_sec = 3, .tv_usec = 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kConnectLimit, sizeof kConnectLimit);
    if (socket && ::connect(socket.get(), one->ai_addr, one->ai_addrlen) == 0)
      connected = std::move(socket);
  }
  constexpr timeval kForever{};
  ::setsockopt(connected.get(), SOL_SOCKET, SO_SNDTIMEO, &kForever, sizeof kForever);
  ::freeaddrinfo(found);
  return connected;
}

std::string read_line(const UniqueFd& socket) {
  std::string line;
  char letter = 0;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kAnswerLimit, sizeof kAnswerLimit);
  while (line.size() < kMostAnswer && ::recv(socket.get(), &letter, 1, 0) == 1 && letter != '\n')
    line += letter;
  constexpr timeval kForever{};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kForever, sizeof kForever);
  return line;
}

std::string text_of(const char* variable) { return process_environment()(variable).value_or(""); }

Hello hello_of(const Job& job, const LauncherAddress& launcher) {
  Hello hello{.version = kVersion,
              .secret = launcher.secret,
              .node = text_of("SLURMD_NODENAME"),
              .engine_id = text_of("SLURM_JOB_ID"),
              .slots = job.ranks_per_node};
  if (hello.node.empty()) hello.node = host_name();
  for (const auto& [name, path] : job.mounts) {
    if (!std::filesystem::exists(path))
      hello.problem = fmt::format("--mount {}: {} is not there", name, path);
  }
  if (!std::filesystem::is_directory(job.directory))
    hello.problem = fmt::format("the job's directory {} is not there", job.directory);
  return hello;
}

// Where a launcher takes this worker, until it lets go.
AgentEnd work_once(const JobFolder& folder, const Job& job, int attempt,
                   const std::function<bool()>& is_over) {
  // In an allocation of a fixed size the launcher begins at the same time, perhaps behind a slow
  // file system.
  std::chrono::milliseconds limit{std::chrono::seconds{attempt == 0 ? 300 : 60}};
  read_seconds(process_environment(), "SULLAE_CONNECT_TIMEOUT", ZeroMeans::error, limit);
  const Deadline deadline(limit, "SULLAE_CONNECT_TIMEOUT");
  std::string why = "it has not begun";
  for (;;) {
    if (const auto launcher = launcher_of(folder, attempt)) {
      const UniqueFd socket = connect_to(*launcher);
      if (socket) {
        watch_connection(socket.get());
        const std::string hello = hello_of(job, *launcher).to_json() + "\n";
        if (::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(hello.size()))
          why = read_line(socket);
        if (why == "ok " + launcher->answer) return run_agent(socket.get(), socket.get());
      } else {
        why = fmt::format("{}:{} cannot be reached", launcher->host, launcher->port);
      }
    }
    if (is_over()) return {};
    if (deadline.passed())
      throw TimeoutError(fmt::format("the launcher of job {} did not take this worker {}: {}",
                                     folder.id(), deadline.describe(), why));
    std::this_thread::sleep_for(std::chrono::milliseconds{200});
  }
}

}  // namespace

int work(const std::filesystem::path& path, int attempt, bool stays) {
  const JobFolder folder(path);
  const Job job = folder.job();
  // What there was before this worker may be of an earlier submission.
  bool has_worked = false;
  const auto is_over = [&] {
    return has_worked && folder.result(std::max(1, folder.submission().number)).has_value();
  };
  for (;;) {
    const AgentEnd end = work_once(folder, job, attempt, is_over);
    if (!stays) return end.exit_code;
    if (end.was_asked_to_go) return 128 + SIGTERM;
    // The launcher writes how the job has ended, or the attempt, when its agents have gone.
    has_worked = true;
    std::this_thread::sleep_for(kBetweenAttempts);
    if (is_over()) return 0;
  }
}

}  // namespace sullae::cluster
