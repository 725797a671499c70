// What there is to show, as it was a moment ago.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cluster/job_folder.h"
#include "dashboard/folders.h"
#include "dashboard/run_index.h"

namespace sullae::dashboard {

/// What clients are told, and say again: UTF-8, while names of folders are bytes, of EUC-KR, say.
std::string id_of(const std::string& name);

struct Contents {
  Found found;
  RunIndex::Runs runs;
};

/// Any thread.
class Catalogue {
 public:
  /// Of `root`; and runs of the jobs in `jobs`, where there is such a folder.
  Catalogue(std::filesystem::path root, std::optional<std::filesystem::path> jobs);

  /// Not older than a second, unless somebody else is looking now. Folders are looked through again
  /// after that, or after ten times as long as it took, so that a slow file system has something
  /// else to do.
  std::shared_ptr<const Contents> contents();
  /// Where a name leads.
  std::filesystem::path path(const std::string& name) const { return root_ / name; }
  const std::filesystem::path& root() const { return root_; }

 private:
  using Clock = std::chrono::steady_clock;
  void look_at_folders();
  std::vector<cluster::JobFolder> jobs();
  std::shared_ptr<const Contents> known_contents() const;

  std::filesystem::path root_;
  std::optional<std::filesystem::path> jobs_;
  std::mutex looking_;  // what follows, but for contents_
  Found found_;
  std::map<std::string, std::filesystem::path> run_folders_;
  Clock::time_point next_look_{};
  Clock::time_point next_update_{};
  bool has_complained_ = false;  // of the folder of jobs
  RunIndex index_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Contents> contents_;
};

}  // namespace sullae::dashboard
