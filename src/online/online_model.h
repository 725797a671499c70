// What rank 0 knows of a model that goes on learning: what waits, what is to be trained, what
// became of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "online/config.h"
#include "online/example_store.h"
#include "online/job.h"
#include "online/lock.h"
#include "online/round_store.h"
#include "sullae/torch/checkpoint.h"
#include "train/fine_tune.h"

namespace sullae::online {

/// Of a version's checkpoint. Throws InputError where it has none, and CheckpointError.
CheckpointMetadata read_version(const std::filesystem::path& file);

/// Used by one thread.
class OnlineModel {
 public:
  /// Throws InputError where another process learns for this model. Ends the rounds that a process
  /// before has left unfinished: a version that it had published is recorded.
  OnlineModel(std::filesystem::path directory, std::string name);

  /// A round that is due now; it has begun then. With `at_once`, whatever has changed is
  /// reason enough.
  /// A round that fails before it can begin is recorded and logged. Throws Error where records
  /// cannot be written.
  std::optional<Job> begin(bool at_once);
  /// Whether its file of samples is still the one that was opened.
  bool is_in_place() const { return examples_.is_in_place(); }
  /// Before the one that took its place is opened. Throws RequestError (unavailable).
  void expect_no_old_log() const { examples_.expect_no_old_log(); }
  /// The checkpoint that the round starts from.
  std::filesystem::path parent_file() const;
  /// A step is done; kept once a second.
  void progress(std::int64_t step, std::int64_t steps);
  /// Publishes the weights of `network`, or says why not. False where they are no successor of what
  /// answers by now, so that the round is to be made again. Throws Error.
  bool finish(const train::FineTuneResult& result, const torch::nn::Module& network);
  void fail(const std::string& reason);
  /// Why the last round failed, or why there is none: what config.toml says is not understood.
  /// Empty where all is well.
  const std::string& problem() const { return problem_.empty() ? problem_of_round_ : problem_; }

 private:
  bool read_config();
  void end_unfinished();
  bool is_version_of(std::int64_t version, std::int64_t round) const;
  bool learnt_from_these(const CheckpointMetadata& metadata) const;
  std::int64_t learnt_revision() const;
  std::int64_t serving_version() const;
  void check_still_serving() const;
  bool rests_after_failure() const;
  bool awaits_server() const;
  Job prepare();
  void publish(const torch::nn::Module& network);
  void end(RoundState state, const std::string& reason);
  void remove_old() const;

  std::filesystem::path directory_;
  std::string name_;
  OnlineLock lock_;
  ExampleStore examples_;
  RoundStore rounds_;
  OnlineConfig config_;
  std::string problem_;  // of the configuration, once it was told
  std::string problem_of_round_;
  std::pair<std::int64_t, std::int64_t> last_in_vain_{-1, -1};  // revision and version of a look
  std::int64_t published_ = 0;                                  // by this process, last, and when
  std::int64_t published_at_ = 0;
  // Of the round that is running.
  Round round_;
  CheckpointMetadata parent_;
  std::int64_t last_progress_ = 0;
};

}  // namespace sullae::online
