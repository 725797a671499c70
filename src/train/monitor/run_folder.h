// The run's folder (--run-dir), which `sullae dashboard` shows.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "sullae/run_log.h"
#include "sullae/train/observer.h"

namespace sullae::train {

/// For rank 0: curves every `interval` steps and after each epoch, what the run is, and how it ends. Used by one thread.
class RunFolder final : public Observer {
 public:
  RunFolder(std::filesystem::path folder, RunLog::Earlier earlier, int interval)
      : folder_(std::move(folder)), earlier_(earlier), interval_(interval) {}

  /// Makes the folder. Throws as RunLog does.
  void started(const Report& report) override;
  void stepped(const Moment& moment) override;
  void epoch_ended(const Moment& moment, const EpochReport& epoch) override;
  void world_changed(const WorldChange& change) override;
  void noted(const std::string& text) override;
  void ended(const Report& report) override;
  void failed(const std::string& why) override;

 private:
  void write(const std::function<void()>& part);

  std::filesystem::path folder_;
  RunLog::Earlier earlier_;
  int interval_;
  bool tested_ = true;
  double pauses_ = 0;  // seconds
  RunDescription description_;
  std::optional<RunLog> log_;
  bool is_told_ = false;  // that it cannot be written
};

}  // namespace sullae::train
