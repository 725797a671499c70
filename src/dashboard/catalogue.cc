#include "dashboard/catalogue.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/percent.h"
#include "base/utf8.h"
#include "runs/record.h"
#include "sullae/error.h"

namespace sullae::dashboard {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kContentsFresh{900};

}  // namespace

std::string id_of(const std::string& name) {
  return find_invalid_utf8(name) == std::string::npos ? name : percent_encode_path(name);
}

Catalogue::Catalogue(fs::path root, std::optional<fs::path> jobs)
    : root_(std::move(root)), jobs_(std::move(jobs)) {}

std::shared_ptr<const Contents> Catalogue::contents() {
  std::unique_lock looking(looking_, std::try_to_lock);
  if (!looking.owns_lock()) {
    // Somebody looks: what was there the last time will do.
    if (auto known = known_contents()) return known;
    looking.lock();
  }
  if (Clock::now() >= next_look_) look_at_folders();
  if (Clock::now() < next_update_) return known_contents();
  auto contents = std::make_shared<const Contents>(Contents{found_, index_.update(run_folders_)});
  next_update_ = Clock::now() + kContentsFresh;
  const std::lock_guard lock(mutex_);
  return contents_ = std::move(contents);
}

std::shared_ptr<const Contents> Catalogue::known_contents() const {
  const std::lock_guard lock(mutex_);
  return contents_;
}

// Runs are shown all the same where the folder of jobs cannot be read.
std::vector<cluster::JobFolder> Catalogue::jobs() {
  if (!jobs_) return {};
  try {
    auto found = cluster::JobFolders(*jobs_).all();
    has_complained_ = false;
    return found;
  } catch (const Error& error) {
    if (!std::exchange(has_complained_, true)) log::warning("{}", error.what());
    return {};
  }
}

void Catalogue::look_at_folders() {
  const auto begin = Clock::now();
  found_ = look_below(root_);
  run_folders_.clear();
  std::set<fs::path> seen;
  std::error_code error;
  for (const auto& name : found_.runs) {
    run_folders_[id_of(name)] = path(name);
    if (jobs_) seen.insert(fs::weakly_canonical(path(name), error));
  }
  for (const auto& job : jobs()) {
    const auto run = job.run();
    if (!fs::exists(run / runs::kRecordFile, error)) continue;
    if (!seen.contains(fs::weakly_canonical(run, error)))
      run_folders_["jobs:" + run.lexically_relative(*jobs_).string()] = run;
  }
  next_look_ = std::max(begin + kContentsFresh, Clock::now() + 10 * (Clock::now() - begin));
  next_update_ = {};
}

}  // namespace sullae::dashboard
