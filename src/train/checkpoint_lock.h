// Who writes checkpoints of a name into a directory: one process at a time.
#pragma once

#include <filesystem>
#include <string>

#include "base/deadline.h"
#include "base/fd.h"

namespace sullae::train {

/// What to do where another process has the lock.
enum class Contested {
  /// Wait for its end, and say so, SULLAE_CHECKPOINT_LOCK_TIMEOUT, by default 120 seconds: a
  /// network's file system keeps the
  /// lock of a host that is lost for more than one minute.
  wait,
  /// Take it when it is free: the other one is a rank that has been given up.
  go_on,
};

/// Its file, hidden, says who has it, and stays: whoever removed it would leave two processes with
/// a lock each. Used by one thread.
class CheckpointLock {
 public:
  /// Throws InputError where another process keeps it. A file system without locks is warned of.
  CheckpointLock(const std::filesystem::path& directory, const std::string& name,
                 Contested contested);
  ~CheckpointLock();
  CheckpointLock(const CheckpointLock&) = delete;
  CheckpointLock& operator=(const CheckpointLock&) = delete;

  /// Takes it where somebody else had it; false as long as they have.
  bool take();

 private:
  bool take(const Deadline& deadline);
  void write_holder() const;
  std::string holder() const;

  std::filesystem::path file_;
  UniqueFd fd_;
  bool works_ = true;
};

}  // namespace sullae::train
