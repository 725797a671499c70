#include "launch/elastic/host_list.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/system_error.h"
#include "launch/job.h"

namespace sullae::elastic {
namespace {

namespace fs = std::filesystem;

// For this user alone: whoever can write there can have programs started.
fs::path folder() {
  const auto runtime = process_environment()("XDG_RUNTIME_DIR");
  const bool has_runtime = runtime && ::access(runtime->c_str(), W_OK) == 0;
  fs::path path = has_runtime ? fs::path(*runtime) / "sullae"
                              : fs::temp_directory_path() / fmt::format("sullae-{}", ::geteuid());
  ::mkdir(path.c_str(), 0700);
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) throw system_error("{}", path.string());
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 0077) != 0) {
    throw Error(fmt::format("{}: expected a folder that is this user's alone", path.string()));
  }
  return path;
}

fs::path file_of(const std::string& job) { return folder() / (job + ".hosts"); }

std::vector<Host> read_hosts(const fs::path& file) {
  std::ifstream stream(file);
  if (!stream) throw system_error("{}", file.string());
  return parse_host_lines(stream, file.string());
}

void write_hosts(const fs::path& file, const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& host : hosts) text += fmt::format("{} slots={}\n", host.name, host.slots);
  write_file(file, text);
}

// Which its launcher holds. The job is called by that one's process id, which may be another
// process's by now.
fs::path lock_of(const std::string& job) { return folder() / (job + ".lock"); }

bool is_live(const std::string& job) { return is_locked(lock_of(job)).value_or(true); }

fs::path file_of_running(const std::string& job) {
  auto file = file_of(job);
  if (is_live(job) && fs::exists(file)) return file;
  const auto jobs = jobs_with_host_lists();
  throw InputError(
      fmt::format("there is no job {} here whose hosts can be changed: those are {} (elastic jobs "
                  "with -H or --hostfile, "
                  "by the process id of sullae run)",
                  job, jobs.empty() ? "none" : fmt::format("{}", fmt::join(jobs, ", "))));
}

// Two changes at once are one after the other.
template <class Change>
void change_hosts(const std::string& job, const Change& change) {
  const auto file = file_of_running(job);
  const Deadline deadline(std::chrono::seconds{30}, "the limit for other changes of hosts");
  const UniqueFd lock = lock_file(folder() / ".lock", 0600, deadline);
  if (!lock)
    throw TimeoutError(fmt::format("{}: another change of hosts did not end {}", folder().string(),
                                   deadline.describe()));
  auto hosts = read_hosts(file);
  change(hosts);
  write_hosts(file, hosts);
}

}  // namespace

HostList::HostList(std::vector<Host> hosts)
    : file_(file_of(fmt::to_string(::getpid()))),
      lock_file_(lock_of(fmt::to_string(::getpid()))),
      hosts_(std::move(hosts)) {
  const Deadline deadline(std::chrono::seconds{10}, "the limit for its lock");
  lock_ = lock_file(lock_file_, 0600, deadline);
  if (!lock_)
    throw TimeoutError(
        fmt::format("{}: somebody has its lock {}", lock_file_.string(), deadline.describe()));
  write_hosts(file_, hosts_);
}

HostList::~HostList() {
  ::unlink(file_.c_str());
  ::unlink(lock_file_.c_str());
}

std::optional<Supply> HostList::turn() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return std::nullopt;
  next_ = now + kPeriod;
  struct stat status {};
  if (::stat(file_.c_str(), &status) != 0) return std::nullopt;
  if (status.st_mtim.tv_sec == seen_.tv_sec && status.st_mtim.tv_nsec == seen_.tv_nsec)
    return std::nullopt;
  seen_ = status.st_mtim;
  try {
    auto hosts = read_hosts(file_);
    if (hosts == hosts_) return std::nullopt;
    hosts_ = std::move(hosts);
    return Supply{.hosts = hosts_};
  } catch (const Error& error) {
    say(fmt::format("{}; the hosts stay as they are", error.what()));
    return std::nullopt;
  }
}

std::vector<std::string> jobs_with_host_lists() {
  std::vector<std::string> jobs;
  std::error_code error;
  for (const auto& file : entries_of(folder(), error).value_or(std::vector<fs::path>{})) {
    if (file.extension() != ".hosts") continue;
    if (is_live(file.stem().string())) {
      jobs.push_back(file.stem().string());
    } else {
      ::unlink(file.c_str());  // of a launcher that was killed
      ::unlink(lock_of(file.stem().string()).c_str());
    }
  }
  return jobs;
}

std::vector<Host> hosts_of_job(const std::string& job) { return read_hosts(file_of_running(job)); }

void add_hosts(const std::string& job, const std::vector<Host>& added) {
  change_hosts(job, [&](std::vector<Host>& hosts) {
    for (const Host& host : added) {
      if (std::ranges::find(hosts, host.name, &Host::name) != hosts.end())
        throw InputError(fmt::format("{} is one of job {}'s hosts already", host.name, job));
      hosts.push_back(host);
    }
  });
}

void remove_hosts(const std::string& job, const std::vector<std::string>& names) {
  change_hosts(job, [&](std::vector<Host>& hosts) {
    for (const auto& name : names) {
      if (std::erase_if(hosts, [&](const Host& host) { return host.name == name; }) == 0)
        throw InputError(fmt::format("{} is none of job {}'s hosts", name, job));
    }
    if (hosts.empty())
      throw InputError(fmt::format("job {} would have no host left; Ctrl-C ends a job", job));
  });
}

}  // namespace sullae::elastic
