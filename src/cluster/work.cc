#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/host.h"
#include "base/version.h"
#include "cluster/coordinator.h"
#include "cluster/job_folder.h"
#include "cluster/worker_pool.h"
#include "launch/agent.h"
#include "sullae/error.h"
#include "transport/store/lease.h"

namespace sullae::cluster {
namespace {

struct Launcher {
  std::string address;
  int port = 0;
  std::string secret;
};

std::optional<Launcher> launcher_of(const JobFolder& folder, int attempt) {
  const int number = attempt > 0 ? attempt : folder.attempts();
  const auto file = folder.attempt(number) / "coordinator.json";
  if (number == 0 || !std::filesystem::exists(file)) return std::nullopt;
  const auto json = nlohmann::json::parse(read_file(file, 4096));
  return Launcher{json.at("address"), json.at("port"), json.at("secret")};
}

UniqueFd connect_to(const Launcher& launcher) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(launcher.address.c_str(), fmt::to_string(launcher.port).c_str(), &hints,
                    &found) != 0)
    return {};
  UniqueFd connected;
  for (const addrinfo* one = found; one != nullptr && !connected; one = one->ai_next) {
    UniqueFd socket(::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol));
    if (socket && ::connect(socket.get(), one->ai_addr, one->ai_addrlen) == 0)
      connected = std::move(socket);
  }
  ::freeaddrinfo(found);
  return connected;
}

std::string read_line(const UniqueFd& socket) {
  std::string line;
  char letter = 0;
  while (::recv(socket.get(), &letter, 1, 0) == 1 && letter != '\n') line += letter;
  return line;
}

std::string text_of(const char* variable) { return process_environment()(variable).value_or(""); }

Hello hello_of(const Job& job, const Launcher& launcher) {
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

}  // namespace

int work(const std::filesystem::path& path, int attempt) {
  const JobFolder folder(path);
  const Job job = folder.job();
  std::chrono::milliseconds limit{std::chrono::seconds{60}};
  read_seconds(process_environment(), "SULLAE_CONNECT_TIMEOUT", Zero::forbidden, limit);
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
        if (why == "ok") return run_agent(socket.get(), socket.get());
      } else {
        why = fmt::format("{}:{} cannot be reached", launcher->address, launcher->port);
      }
    }
    if (deadline.passed())
      throw TimeoutError(fmt::format("the launcher of job {} did not take this worker {}: {}",
                                     folder.id(), deadline.describe(), why));
    std::this_thread::sleep_for(std::chrono::milliseconds{200});
  }
}

}  // namespace sullae::cluster
