// The run's folder (--run-dir), which `sullae dashboard` shows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/best_effort.h"
#include "sullae/run_log.h"
#include "sullae/train/observer.h"

namespace sullae::train {

/// For rank 0: curves every `interval` steps and after each epoch, what the run is, and how it
/// ends. Used by one thread.
class RunFolder final : public Observer {
 public:
  /// `max_steps`: the run ends after so many; 0: with its epochs.
  RunFolder(std::filesystem::path folder, RunLog::Earlier earlier, int interval,
            std::int64_t max_steps)
      : folder_(std::move(folder)), earlier_(earlier), interval_(interval), max_steps_(max_steps) {}

  /// Makes the folder. Throws InputError as RunLog does.
  void started(const Report& report) override;
  void stepped(const Moment& moment) override;
  void epoch_ended(const Moment& moment, const EpochReport& epoch) override;
  void world_changed(const WorldChange& change) override;
  void noted(const std::string& text) override;
  void ended(const Report& report) override;
  void failed(const std::string& why) override;
  void stopped(const std::string& why) override;

 private:
  void open(RunLog::Earlier earlier);
  void write(const std::function<void()>& part);
  void write_moment();

  std::filesystem::path folder_;
  RunLog::Earlier earlier_;
  int interval_;
  std::int64_t max_steps_;
  bool tested_ = true;
  std::optional<Moment> unwritten_;  // the last, where it was not due
  double pauses_ = 0;                // seconds
  RunDescription description_;
  std::optional<RunLog> log_;
  bool is_first_ = true;  // of this process's steps
  BestEffort best_effort_{"--run-dir", "the training"};
};

}  // namespace sullae::train
