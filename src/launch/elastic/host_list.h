// The hosts of a running job, in a file that `sullae hosts` changes.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/fd.h"
#include "launch/elastic/host_source.h"

namespace sullae::elastic {

/// Writes the file, for this process, looks at it each second, and removes it. Used by one thread.
class HostList final : public HostSource {
 public:
  static constexpr std::chrono::seconds kPeriod{1};

  /// Throws Error where the file cannot be written.
  explicit HostList(std::vector<Host> hosts);
  ~HostList() override;
  HostList(const HostList&) = delete;
  HostList& operator=(const HostList&) = delete;

  Supply first() override { return {.hosts = hosts_}; }
  int fd() const override { return -1; }
  std::chrono::steady_clock::time_point next() const override { return next_; }
  std::optional<Supply> turn() override;

 private:
  std::filesystem::path file_;
  std::filesystem::path lock_file_;
  UniqueFd lock_;  // says that this process lives
  std::vector<Host> hosts_;
  struct timespec seen_ {};  // when the file was written that has been read
  std::chrono::steady_clock::time_point next_{};
};

/// The jobs of this user on this host whose hosts can be changed, by the process id of their
/// launchers.
std::vector<std::string> jobs_with_host_lists();
/// Throw InputError for a job that is none, hosts that are in it already, and hosts that are not.
std::vector<Host> hosts_of_job(const std::string& job);
void add_hosts(const std::string& job, const std::vector<Host>& hosts);
void remove_hosts(const std::string& job, const std::vector<std::string>& names);

}  // namespace sullae::elastic
