#include "cluster/slurm/private_cluster.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/host.h"
#include "base/processes.h"
#include "base/system_error.h"
#include "cluster/command.h"
#include "cluster/slurm/daemons.h"
#include "sullae/error.h"

namespace sullae::cluster {
namespace {

namespace fs = std::filesystem;

constexpr std::array kPrograms = {"munged", "slurmctld", "slurmd",  "sbatch", "squeue",
                                  "sinfo",  "scontrol",  "scancel", "srun",   "strigger"};
constexpr std::array kFolders = {"run", "state", "spool", "spool/head", "log"};
constexpr std::array kFiles = {"slurm.conf", "controller", "resume",      "suspend",
                               "repair",     "munge.key",  "cluster.toml"};

// Daemons are in /usr/sbin, which users seldom have in PATH.
void widen_path() {
  const char* const path = std::getenv("PATH");
  ::setenv("PATH",
           fmt::format("{}:/usr/sbin:/sbin", path == nullptr ? "/usr/bin:/bin" : path).c_str(), 1);
}

// Below those that the kernel gives to whoever asks for none: a node's daemon may start much later.
std::vector<int> free_ports(std::size_t count) {
  std::mt19937 random(std::random_device{}());
  std::uniform_int_distribution<int> port(20'000, 32'000);
  std::vector<UniqueFd> sockets;
  std::vector<int> ports;
  for (int tries = 0; ports.size() < count; ++tries) {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    const int one = port(random);
    address.sin_port = htons(static_cast<std::uint16_t>(one));
    if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      if (tries > 10'000) throw system_error("a free port");
      continue;
    }
    sockets.push_back(std::move(socket));
    ports.push_back(one);
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

void remove_files(const fs::path& folder) {
  for (const char* const name : kFiles) fs::remove(folder / name);
  for (const char* const name : {"run", "state", "spool", "log"}) fs::remove_all(folder / name);
  if (fs::exists(folder) && fs::is_empty(folder)) fs::remove(folder);
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
  auto ports = free_ports(static_cast<std::size_t>(options.nodes) + 2);
  PrivatePorts named{.controller = ports.back()};
  ports.pop_back();
  named.nodes = std::move(ports);
  std::string host = host_name();
  host.resize(std::min(host.find('.'), host.size()));
  write_file(folder / "slurm.conf", slurm_conf(options, named, host, user_name()));
  write_with_mode(folder / "munge.key", draw_key(), fs::perms::owner_read);
  for (const auto& [name, text] :
       {std::pair{"controller", controller_script(folder)},
        std::pair{"resume", resume_script(folder)}, std::pair{"suspend", suspend_script(folder)},
        std::pair{"repair", repair_script(folder)}}) {
    write_with_mode(folder / name, text, fs::perms::owner_all);
  }
  fs::create_directories(settings.jobs);
}

void start_controller(const fs::path& folder, const std::vector<std::string>& flags = {}) {
  std::vector<std::string> words = {"setsid", "--wait", (folder / "controller").string()};
  words.insert(words.end(), flags.begin(), flags.end());
  start_daemon(words);
}

void start_munged(const fs::path& folder) {
  const auto in = [&](const char* name) {
    return (folder / name).string();
  };
  start_daemon({"munged", "--force", "--key-file=" + in("munge.key"),
                "--socket=" + in("run/munge.sock"), "--pid-file=" + in("run/munged.pid"),
                "--log-file=" + in("log/munged.log"), "--seed-file=" + in("run/seed")});
}

void start_daemons(const fs::path& folder) {
  start_munged(folder);
  // -c: of an earlier life its nodes would be unusable.
  start_controller(folder, {"-c"});
  start_daemon({"slurmd", "-N", "head", "-b", "-f", (folder / "slurm.conf").string()});
}

// With `state`, when that is the head's: "idle" of a new one.
void wait_until_it_answers(const fs::path& folder, std::string_view state = "") {
  const Deadline deadline(command_timeout(), kCommandTimeout);
  for (;;) {
    const CommandResult result = run_command({.words = {"sinfo", "-h", "-n", "head", "-o", "%T"}});
    if (result.exit_code == 0 && !result.output.empty() && result.output.starts_with(state)) return;
    const auto why = [&] {
      return fmt::format("{}{}\n{}", result.output, result.errors,
                         tail_of(folder / "log/slurmctld.log"));
    };
    if (!running_pid(folder, folder / "run/controller.pid"))
      throw Error(fmt::format("slurmctld ended: {}", why()));
    if (deadline.passed())
      throw TimeoutError(fmt::format("Slurm did not answer {}: {}", deadline.describe(), why()));
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
  }
}

void check_programs() {
  std::vector<std::string> missing;
  for (const char* const program : kPrograms) {
    if (!is_installed(program)) missing.emplace_back(program);
  }
  if (missing.empty()) return;
  throw Error(
      fmt::format("{} {} not installed: scripts/setup.sh cluster installs what a private "
                  "cluster needs (Debian's slurmctld, slurmd, slurm-client, munge, "
                  "slurm-wlm-basic-plugins)",
                  fmt::join(missing, ", "), missing.size() == 1 ? "is" : "are"));
}

// It will be removed: nothing of anybody else's may be in it.
void check_folder(const fs::path& folder) {
  const auto text = folder.string();
  if (text.find_first_of(" \t\n'\"\\,#=%") != std::string::npos)
    throw InputError(fmt::format(
        "--folder '{}': Slurm's files cannot have spaces, quotes, commas, #, = or % in paths",
        text));
  if ((folder / "run/munge.sock").string().size() >= sizeof(sockaddr_un::sun_path)) {
    throw InputError(
        fmt::format("--folder {}: the path is too long for a socket's name, of at most {} letters",
                    text, sizeof(sockaddr_un::sun_path) - 16));
  }
  const Settings before = read_settings(folder);
  if (before.is_private) return;
  if (before.is_configured) {
    throw InputError(
        fmt::format("{} is of another cluster; --folder, or SULLAE_CLUSTER, names another folder",
                    (folder / "cluster.toml").string()));
  }
  std::error_code error;
  for (const auto& entry : entries_of(folder, error).value_or(std::vector<fs::path>{})) {
    const auto name = entry.filename().string();
    // What an `up` has left that was killed at once, too.
    if (name == "jobs" || name.starts_with("cluster.toml.tmp-")) continue;
    throw InputError(fmt::format("--folder {}: expected a new folder, or an empty one; {} is in it",
                                 text, name));
  }
}

// One `up` or `down` at a time.
UniqueFd lock_folder(const fs::path& folder) {
  UniqueFd lock = try_lock_folder(folder);
  if (!lock)
    throw InputError(
        fmt::format("{}: another sullae cluster up or down is at work", folder.string()));
  return lock;
}

// Steps outlive the daemons of their nodes.
void cancel_all_jobs() {
  run_command({.words = {"scancel", "--quiet", "--user=" + user_name()}});
  const Deadline deadline(std::chrono::seconds{45}, "the limit for jobs to end");
  for (;;) {
    const CommandResult result = run_command({.words = {"squeue", "-h", "-o", "%i"}});
    if (result.exit_code == 0 && result.output.empty()) return;
    if (deadline.passed())
      throw TimeoutError(fmt::format("jobs did not end {}: {}{}", deadline.describe(),
                                     result.output, result.errors));
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
  check_programs();
  check_folder(options.folder);
  // For its owner alone: whoever reaches its daemons can run programs as this user.
  ::umask(077);
  fs::create_directories(options.folder);
  fs::permissions(options.folder, fs::perms::owner_all);
  const UniqueFd lock = lock_folder(options.folder);
  if (const auto daemons = running_daemons(options.folder); !daemons.empty()) {
    throw InputError(
        fmt::format("a cluster runs in {} already ({}): sullae cluster status shows it; for "
                    "other nodes, end it with sullae cluster down first",
                    options.folder.string(), fmt::join(daemons, ", ")));
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
    // First, so that `down` finds what an `up` that was killed has left.
    write_file(options.folder / "cluster.toml", to_toml(settings));
    write_files(options, settings);
    ::setenv("SLURM_CONF", settings.slurm_conf.c_str(), 1);
    ::unsetenv(
        "SLURMD_NODENAME");  // of a job of a site's Slurm: what has it is a step on that node
    start_daemons(options.folder);
    wait_until_it_answers(options.folder, "idle");
    start_daemon({"strigger", "--set", "--node", "--down", "--flags=PERM",
                  "--program=" + (options.folder / "repair").string()});
  } catch (const std::exception&) {
    end_daemons(options.folder);
    remove_files(options.folder);
    throw;
  }
  return settings;
}

std::vector<std::string> missing_daemons(const fs::path& folder) {
  const auto running = daemons_of(folder);
  std::vector<std::string> missing;
  for (const char* const name : {"munged", "controller"}) {
    if (!running.contains(name)) missing.emplace_back(name);
  }
  return missing;
}

void mend_private_cluster(const Settings& settings) {
  widen_path();
  ::setenv("SLURM_CONF", (settings.folder / "slurm.conf").c_str(), 1);
  const UniqueFd lock = lock_folder(settings.folder);
  for (const auto& name : missing_daemons(settings.folder))
    name == "munged" ? start_munged(settings.folder) : start_controller(settings.folder);
  wait_until_it_answers(settings.folder);
}

void stop_private_cluster(const Settings& settings) {
  const bool runs = !running_daemons(settings.folder).empty();
  widen_path();
  ::setenv("SLURM_CONF", (settings.folder / "slurm.conf").c_str(), 1);
  const UniqueFd lock = lock_folder(settings.folder);
  if (runs) {
    try {
      wait_until_it_answers(settings.folder);
      cancel_all_jobs();
    } catch (const Error& error) {
      end_daemons(settings.folder);
      throw Error(fmt::format(
          "{}; its daemons are ended, and processes of its jobs may be left: sullae cluster down "
          "once more removes its files",
          error.what()));
    }
  }
  end_daemons(settings.folder);
  remove_files(settings.folder);
}

}  // namespace sullae::cluster
