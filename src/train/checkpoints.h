// The checkpoints of a training run: files in a directory, the newest whole one to resume from, and
// the best.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "sullae/torch/checkpoint.h"
#include "train/checkpoint_lock.h"

namespace sullae::train {

/// Checkpoints of steps in `directory`, the newest first; of all runs where `name` is empty. Throws
/// Error.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& directory,
                                                  const std::string& name = "");

/// Writes in the background: what is saved is copied first, and training goes on. Used by one rank.
class Checkpoints {
 public:
  /// Makes the directory, and has it until this ends: no other process writes checkpoints of this
  /// name there. Throws Error where it cannot be made, and InputError where another process keeps
  /// it.
  Checkpoints(std::filesystem::path directory, std::string name, int keep, Contested contested);
  /// Waits for the last write; a failure that wait() was not asked for is logged.
  ~Checkpoints();

  /// Writes the checkpoint of step `steps`, as the best too if `best`, and then removes those of
  /// later steps, which another batch size had counted, and those older than the newest `keep`.
  /// Throws what the write before threw.
  void save(std::int64_t steps, SerializedCheckpoint&& checkpoint, bool best);
  /// Where that of a step belongs.
  std::filesystem::path file_of(std::int64_t steps) const;
  /// The same of one that others have written there.
  void saved(const std::filesystem::path& file, bool best);
  /// Throws InputError where there are some already: what begins anew would be taken for an older
  /// run's, and the other way round.
  void expect_none() const;
  /// Until all is written. Throws what writing threw.
  void wait();

  struct Found {
    std::filesystem::path file;
    CheckpointMetadata metadata;
  };
  /// The newest that is whole, with what `load` has of it, and a warning for each damaged one that
  /// is passed over, for which `load` throws CheckpointError. Empty where there is none. Throws
  /// InputError where all are damaged, and what else `load` throws.
  std::optional<Found> newest(
      const std::function<CheckpointMetadata(const std::filesystem::path& file)>& load) const;

 private:
  void remove_old(const std::filesystem::path& newest);

  std::filesystem::path directory_;
  std::string name_;
  int keep_;
  std::optional<CheckpointLock> lock_;
  std::future<void> writing_;
  bool has_saved_;  // or somebody of this training has
};

}  // namespace sullae::train
