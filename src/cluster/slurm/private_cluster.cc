#include "cluster/slurm/private_cluster.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/host.h"
#include "base/system_error.h"
#include "cluster/command.h"
#include "sullae/error.h"

namespace sullae::cluster {
namespace {

namespace fs = std::filesystem;

constexpr std::array kPrograms = {"munged", "slurmctld", "slurmd",  "sbatch", "squeue",
                                  "sinfo",  "scontrol",  "scancel", "srun",   "strigger"};
constexpr std::array kFolders = {"run", "state", "spool", "spool/head", "log"};
constexpr std::array kFiles = {"slurm.conf", "resume",    "suspend",
                               "repair",     "munge.key", "cluster.toml"};

// Daemons are in /usr/sbin, which users seldom have in PATH.
void widen_path() {
  const char* const path = std::getenv("PATH");
  ::setenv("PATH",
           fmt::format("{}:/usr/sbin:/sbin", path == nullptr ? "/usr/bin:/bin" : path).c_str(), 1);
}

std::vector<int> free_ports(std::size_t count) {
  std::vector<UniqueFd> sockets;
  std::vector<int> ports;
  while (ports.size() < count) {
    sockets.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(sockets.back().get(), generic, size) != 0 ||
        ::getsockname(sockets.back().get(), generic, &size) != 0)
      throw system_error("a free port");
    ports.push_back(ntohs(address.sin_port));
  }
  return ports;
}

std::string user_name() {
  const passwd* const user = ::getpwuid(::geteuid());
  if (user == nullptr) throw Error("this user has no name");
  return user->pw_name;
}

std::string draw_key() {
  std::array<char, 256> key{};
  if (::getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size()))
    throw system_error("getrandom");
  return {key.data(), key.size()};
}

void write_with_mode(const fs::path& file, std::string_view text, fs::perms mode) {
  write_file(file, text);
  fs::permissions(file, mode);
}

// Of a daemon's file; empty where that daemon does not run any more.
std::optional<pid_t> running_pid(const fs::path& pid_file) {
  std::ifstream stream(pid_file);
  pid_t pid = 0;
  if (!(stream >> pid) || pid <= 1 || ::kill(pid, 0) != 0) return std::nullopt;
  std::string command;
  std::ifstream(fmt::format("/proc/{}/comm", pid)) >> command;
  const bool is_daemon = command.starts_with("slurm") || command.starts_with("munged");
  return is_daemon ? std::optional(pid) : std::nullopt;
}

std::map<std::string, pid_t> daemons_of(const fs::path& folder) {
  std::map<std::string, pid_t> found;
  std::error_code error;
  for (const auto& file : entries_of(folder / "run", error).value_or(std::vector<fs::path>{})) {
    if (file.extension() != ".pid") continue;
    if (const auto pid = running_pid(file)) found[file.stem().string()] = *pid;
  }
  return found;
}

void end_processes(const std::map<std::string, pid_t>& daemons) {
  for (const auto& [name, pid] : daemons) ::kill(pid, SIGTERM);
  const Deadline deadline(std::chrono::seconds{10}, "the limit for daemons to end");
  for (const auto& [name, pid] : daemons) {
    while (::kill(pid, 0) == 0 && !deadline.passed())
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
    if (::kill(pid, 0) == 0) ::kill(pid, SIGKILL);
  }
}

void end_daemons(const fs::path& folder) {
  auto daemons = daemons_of(folder);
  const auto munged = daemons.extract("munged");
  end_processes(daemons);  // which need munged until they have ended
  if (!munged.empty()) end_processes({{munged.key(), munged.mapped()}});
}

void remove_files(const fs::path& folder) {
  for (const char* const name : kFiles) fs::remove(folder / name);
  for (const char* const name : {"run", "state", "spool", "log"}) fs::remove_all(folder / name);
  if (fs::exists(folder) && fs::is_empty(folder)) fs::remove(folder);
}

void start_daemon(const std::vector<std::string>& words) {
  const Answer answer = ask({.words = words});
  if (answer.exit_code != 0) {
    throw Error(fmt::format("{} could not be started (exit code {}): {}{}", words.front(),
                            answer.exit_code, answer.output, answer.errors));
  }
}

std::string tail_of(const fs::path& file) {
  constexpr std::size_t kBytes = 1500;
  std::ifstream stream(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  return text.size() > kBytes ? text.substr(text.size() - kBytes) : text;
}

void write_files(const PrivateClusterOptions& options, const Settings& settings) {
  const fs::path& folder = options.folder;
  for (const char* const name : kFolders) fs::create_directories(folder / name);
  fs::permissions(folder, fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec);
  auto ports = free_ports(static_cast<std::size_t>(options.nodes) + 2);
  PrivatePorts named{.controller = ports.back()};
  ports.pop_back();
  named.nodes = std::move(ports);
  std::string host = host_name();
  host.resize(std::min(host.find('.'), host.size()));
  write_file(folder / "slurm.conf", slurm_conf(options, named, host, user_name()));
  write_with_mode(folder / "munge.key", draw_key(), fs::perms::owner_read);
  for (const auto& [name, text] :
       {std::pair{"resume", resume_script(folder)}, std::pair{"suspend", suspend_script(folder)},
        std::pair{"repair", repair_script(folder)}}) {
    write_with_mode(folder / name, text, fs::perms::owner_all);
  }
  fs::create_directories(settings.jobs);
}

void start_daemons(const fs::path& folder) {
  const auto in = [&](const char* name) {
    return (folder / name).string();
  };
  start_daemon({"munged", "--force", "--key-file=" + in("munge.key"),
                "--socket=" + in("run/munge.sock"), "--pid-file=" + in("run/munged.pid"),
                "--log-file=" + in("log/munged.log"), "--seed-file=" + in("run/seed")});
  // -c: of an earlier life its nodes would be unusable.
  start_daemon({"slurmctld", "-c", "-f", in("slurm.conf")});
  start_daemon({"slurmd", "-N", "head", "-b", "-f", in("slurm.conf")});
}

void wait_until_it_answers(const fs::path& folder) {
  std::chrono::milliseconds limit{std::chrono::seconds{30}};
  read_seconds(process_environment(), "SULLAE_CLUSTER_TIMEOUT", Zero::forbidden, limit);
  const Deadline deadline(limit, "SULLAE_CLUSTER_TIMEOUT");
  for (;;) {
    const Answer answer = ask({.words = {"sinfo", "-h", "-n", "head", "-o", "%T"}});
    if (answer.exit_code == 0 && answer.output.starts_with("idle")) return;
    if (deadline.passed()) {
      throw TimeoutError(fmt::format("Slurm did not answer {}: {}{}\n{}", deadline.describe(),
                                     answer.output, answer.errors,
                                     tail_of(folder / "log/slurmctld.log")));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
  }
}

}  // namespace

std::vector<std::string> running_daemons(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& [name, pid] : daemons_of(folder)) names.push_back(name);
  return names;
}

Settings start_private_cluster(const PrivateClusterOptions& options) {
  widen_path();
  std::vector<std::string> missing;
  for (const char* const program : kPrograms) {
    if (!is_installed(program)) missing.emplace_back(program);
  }
  if (!missing.empty()) {
    throw Error(
        fmt::format("{} {} not installed: scripts/setup.sh cluster installs what a private "
                    "cluster needs (Debian's slurmctld, slurmd, slurm-client, munge, "
                    "slurm-wlm-basic-plugins)",
                    fmt::join(missing, ", "), missing.size() == 1 ? "is" : "are"));
  }
  const Settings before = read_settings(options.folder);
  if (before.is_configured && !before.is_private) {
    throw InputError(
        fmt::format("{} is of another cluster; --folder, or SULLAE_CLUSTER, names "
                    "another folder",
                    (options.folder / "cluster.toml").string()));
  }
  if (const auto daemons = running_daemons(options.folder); !daemons.empty()) {
    throw InputError(
        fmt::format("a cluster runs in {} already ({}): sullae cluster status shows it, "
                    "sullae cluster down ends it",
                    options.folder.string(), fmt::join(daemons, ", ")));
  }
  if ((options.folder / "run/munge.sock").string().size() >= sizeof(sockaddr_un::sun_path)) {
    throw InputError(
        fmt::format("--folder {}: the path is too long for a socket's name, of at most "
                    "{} letters",
                    options.folder.string(), sizeof(sockaddr_un::sun_path) - 16));
  }
  Settings settings{.folder = options.folder,
                    .is_configured = true,
                    .jobs = options.folder / "jobs",
                    .slurm_conf = (options.folder / "slurm.conf").string(),
                    .partition = "low",
                    .high = "high",
                    .low = "low",
                    .coordinator = "coordinators",
                    .address = "127.0.0.1",
                    .is_private = true};
  try {
    write_files(options, settings);
    ::setenv("SLURM_CONF", settings.slurm_conf.c_str(), 1);
    start_daemons(options.folder);
    wait_until_it_answers(options.folder);
    start_daemon({"strigger", "--set", "--node", "--down", "--flags=PERM",
                  "--program=" + (options.folder / "repair").string()});
    write_file(options.folder / "cluster.toml", to_toml(settings));
  } catch (const std::exception&) {
    end_daemons(options.folder);
    remove_files(options.folder);
    throw;
  }
  return settings;
}

void stop_private_cluster(const Settings& settings) {
  widen_path();
  ::setenv("SLURM_CONF", settings.slurm_conf.c_str(), 1);
  const auto daemons = running_daemons(settings.folder);
  if (std::ranges::find(daemons, "slurmctld") != daemons.end()) {
    // Steps outlive the daemons of their nodes.
    ask({.words = {"scancel", "--quiet", "--user=" + user_name()}});
    const Deadline deadline(std::chrono::seconds{20}, "the limit for jobs to end");
    while (!deadline.passed()) {
      const Answer answer = ask({.words = {"squeue", "-h", "-o", "%i"}});
      if (answer.exit_code != 0 || answer.output.empty()) break;
      std::this_thread::sleep_for(std::chrono::milliseconds{100});
    }
  }
  end_daemons(settings.folder);
  remove_files(settings.folder);
}

}  // namespace sullae::cluster
