// What a training run tells of itself, and who hears it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "sullae/train/objective.h"

namespace sullae::train {

/// How a run stands after a step.
struct Moment {
  int epoch = 0;
  int epochs = 0;
  std::int64_t step = 0;  ///< of the epoch, from 1
  std::int64_t steps_per_epoch = 0;
  std::int64_t total_steps = 0;  ///< since the training began
  double loss = 0;               ///< of this rank's samples in this step
  double lr = 0;
  double samples_per_second = 0;  ///< of all ranks together, lately
  double seconds_left = 0;        ///< of the training; 0 where not known yet
  double waiting_for_data = 0;    ///< part of this rank's time lately, from 0 to 1
  double waiting_for_ranks = 0;
  double loss_scale = 1;
  std::int64_t skipped_steps = 0;
  std::int64_t damaged_records = 0;
  double test_loss = 0;                        ///< the last ones measured
  std::map<std::string, double> test_metrics;  ///< by name
};

/// An epoch of a run.
struct EpochReport {
  int epoch = 0;
  double lr = 0;  ///< at its end
  double train_loss = 0;
  double test_loss = 0;
  std::map<std::string, double> test_metrics;
  double samples_per_second = 0;  ///< of all ranks together, in this epoch
  /// Since the training began, in all the runs of which this is one (--resume).
  double seconds = 0;
};

/// In an elastic job: ranks came or went.
struct WorldChange {
  std::int64_t step = 0;  ///< since the training began
  int ranks = 0;          ///< that go on
  double pause = 0;       ///< seconds without training
  std::string reason;
};

/// What a run came to.
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
  bool tested = true;     ///< there are test samples
  double test_loss = 0;
  std::vector<Metric> metrics;
  std::map<std::string, double> test_metrics;
  /// Of all ranks together while training, the first step left out; of the last epoch where nothing
  /// was left to train.
  double samples_per_second = 0;
  /// Of training and testing, in all the runs of which this is one (--resume).
  double seconds = 0;
  std::string checkpoint;       ///< the last one written; empty if none was
  double waiting_for_data = 0;  ///< part of rank 0's training time
  double waiting_for_ranks = 0;
  std::int64_t skipped_steps = 0;
  std::int64_t damaged_records = 0;        ///< on all ranks
  std::int64_t peak_memory = 0;            ///< bytes, of the process that had the most
  int scale_up = 1;                        ///< replicas within each rank
  std::vector<WorldChange> world_changes;  ///< those that the rank which writes the report has seen
  std::string configuration;               ///< TOML
  std::vector<EpochReport> history;

  /// As JSON, a metric as "test_<name>".
  void write(const std::filesystem::path& file) const;
  /// Throws InputError for a file that is no report.
  static Report read(const std::filesystem::path& file);
};

/// Called by the training thread. On every rank, so that it may call collectives, as long as every
/// rank's does.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Before the first step; what is known by then.
  virtual void started(const Report& report) { static_cast<void>(report); }
  virtual void stepped(const Moment& moment) { static_cast<void>(moment); }
  /// After the test. An epoch that TrainOptions::max_steps cut short counts.
  virtual void epoch_ended(const Moment& moment, const EpochReport& epoch) {
    static_cast<void>(moment);
    static_cast<void>(epoch);
  }
  virtual void world_changed(const WorldChange& change) { static_cast<void>(change); }
  /// Something worth a line: where the run resumes, what was exported.
  virtual void noted(const std::string& text) { static_cast<void>(text); }
  virtual void ended(const Report& report) { static_cast<void>(report); }
  /// Instead: an exception is on its way.
  virtual void failed(const std::string& why) { static_cast<void>(why); }
  /// Instead: it was asked to end, and does so with Stopped.
  virtual void stopped(const std::string& why) { static_cast<void>(why); }
};

}  // namespace sullae::train
