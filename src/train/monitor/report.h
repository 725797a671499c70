// What a training run came to.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sullae::train {

/// An epoch of a run.
struct EpochReport {
  int epoch = 0;
  double lr = 0;  ///< at its end
  double train_loss = 0;
  double test_loss = 0;
  double test_accuracy = 0;
  double samples_per_second = 0;  ///< since the training began
  double seconds = 0;             ///< since the training began
};

struct Report {
  std::string recipe;
  std::string data;
  int world_size = 1;
  int threads = 1;  ///< of each rank
  int epochs = 0;
  int batch_size = 0;
  std::int64_t steps = 0;
  std::int64_t parameters = 0;
  double train_loss = 0;  ///< mean over the last epoch
  double test_loss = 0;
  double test_accuracy = 0;       ///< from 0 to 1
  double samples_per_second = 0;  ///< of all ranks together while training, the first step left out
  double seconds = 0;             ///< all of it: reading the data, training, testing
  std::string checkpoint;         ///< the last one written; empty if none was
  double waiting_for_data = 0;    ///< part of rank 0's training time
  double waiting_for_ranks = 0;
  std::int64_t skipped_steps = 0;
  std::int64_t damaged_records = 0;  ///< on all ranks
  int scale_up = 1;                  ///< replicas within each rank
  std::string configuration;         ///< TOML
  std::vector<EpochReport> history;

  /// As JSON.
  void write(const std::filesystem::path& file) const;
  /// Throws InputError for a file that is no report.
  static Report read(const std::filesystem::path& file);
};

/// A table with a column a report; with more than one, the speed of each against the first, and how
/// much of the ideal that is.
std::string format_table(const std::vector<Report>& reports);

}  // namespace sullae::train
