#include "dashboard/run_index.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/file_lock.h"
#include "runs/history.h"
#include "sullae/error.h"

namespace sullae::dashboard {
namespace {

namespace fs = std::filesystem;

// Some lines of the end of metrics.jsonl.
constexpr std::int64_t kTailBytes = 8192;

std::int64_t nanoseconds(const struct timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// What has been written since the record was.
void read_tail(const fs::path& file, Run& run) {
  const auto tail = runs::History::end_of(file, kTailBytes);
  if (tail.steps().empty()) return;
  run.record.step = tail.steps().back();
  run.updated = std::max(run.updated, tail.times().back());
  for (const auto& column : tail.columns()) {
    if (!column.values.empty()) run.record.latest[column.tag] = column.values.back();
  }
}

Run read_run(const fs::path& folder) {
  Run run{.folder = folder};
  const auto file = folder / runs::kRecordFile;
  try {
    run.record = runs::record_from(read_file(file, runs::kMostRecordBytes), file);
    run.updated = run.record.ended ? run.record.ended->time : run.record.written;
    if (!run.record.ended) read_tail(folder / runs::kMetricsFile, run);
  } catch (const Error& error) {
    run.problem = error.what();
    run.record.name = folder.filename().string();
  }
  return run;
}

}  // namespace

RunIndex::Times RunIndex::times_of(const fs::path& folder) {
  Times times;
  struct stat status = {};
  if (::stat((folder / runs::kRecordFile).c_str(), &status) == 0) {
    times.record = nanoseconds(status.st_mtim);
    times.inode = status.st_ino;
  }
  if (::stat((folder / runs::kMetricsFile).c_str(), &status) == 0) {
    times.metrics = nanoseconds(status.st_mtim);
    times.bytes = status.st_size;
  }
  return times;
}

const RunIndex::Runs& RunIndex::update(const std::map<std::string, fs::path>& folders) {
  std::erase_if(runs_, [&](const auto& item) { return !folders.contains(item.first); });
  std::erase_if(times_, [&](const auto& item) { return !folders.contains(item.first); });
  for (const auto& [name, folder] : folders) {
    // The lock first: of a run that ends now the end is read then.
    const auto is_live = is_locked(folder / runs::kMetricsFile);
    const Times times = times_of(folder);
    auto& known = runs_[name];
    const bool is_new = !known || times_[name] != times;
    if (!is_new && known->is_live == is_live) continue;
    Run run = is_new ? read_run(folder) : *known;
    run.is_live = is_live;
    known = std::make_shared<const Run>(std::move(run));
    times_[name] = times;
  }
  return runs_;
}

}  // namespace sullae::dashboard
