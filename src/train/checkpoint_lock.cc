#include "train/checkpoint_lock.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "base/environment.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/host.h"
#include "base/log.h"
#include "sullae/error.h"

namespace sullae::train {
namespace {

constexpr const char* kLockTimeout = "SULLAE_CHECKPOINT_LOCK_TIMEOUT";

}  // namespace

CheckpointLock::CheckpointLock(const std::filesystem::path& directory, const std::string& name,
                               Contested contested)
    : file_(directory / fmt::format(".{}.lock", name)) {
  std::chrono::milliseconds limit{std::chrono::seconds{120}};
  read_seconds(process_environment(), kLockTimeout, ZeroMeans::error, limit);
  if (take() || contested == Contested::go_on) return;
  const auto problem = fmt::format("--checkpoint-dir {}: {} writes checkpoints of {} there",
                                   directory.string(), holder(), name);
  log::warning("{}: waiting for its end", problem);
  const Deadline deadline(limit, kLockTimeout);
  if (!take(deadline))
    throw InputError(fmt::format("{}, and did not end {}", problem, deadline.describe()));
}

// Forks that have the file, too, do not have the lock then.
CheckpointLock::~CheckpointLock() {
  if (fd_) unlock(fd_.get());
}

bool CheckpointLock::take() { return take({std::chrono::milliseconds{0}, kLockTimeout}); }

bool CheckpointLock::take(const Deadline& deadline) {
  if (!works_ || fd_) return true;
  constexpr mode_t kMode = 0666;
  try {
    fd_ = lock_file(file_, kMode, deadline);
  } catch (const Error& error) {
    log::warning("{}: nothing keeps another training from writing there", error.what());
    works_ = false;
    return true;
  }
  if (fd_) write_holder();
  return static_cast<bool>(fd_);
}

// For messages alone: on a full disk they say less.
void CheckpointLock::write_holder() const {
  const auto own = fmt::format("process {} on {}", ::getpid(), host_name());
  if (::ftruncate(fd_.get(), 0) == 0 && ::pwrite(fd_.get(), own.data(), own.size(), 0) < 0)
    log::info("{} does not say who has it", file_.string());
}

std::string CheckpointLock::holder() const {
  constexpr std::size_t kMostBytes = 1024;
  const auto text = read_file(file_, kMostBytes);
  return text.empty() ? "another process" : text;
}

}  // namespace sullae::train
