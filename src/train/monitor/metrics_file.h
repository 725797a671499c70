// Metrics for Prometheus, in a file that node_exporter's textfile collector reads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/best_effort.h"
#include "sullae/train/observer.h"

namespace sullae::train {

/// For rank 0. Replaces the file as a whole, every `interval` steps and after each epoch, where it
/// can be written.
class MetricsFile final : public Observer {
 public:
  MetricsFile(std::filesystem::path file, int interval)
      : file_(std::move(file)), interval_(interval) {}

  void started(const Report& report) override;
  void stepped(const Moment& moment) override;
  void world_changed(const WorldChange& change) override;
  void epoch_ended(const Moment& moment, const EpochReport& epoch) override;

 private:
  void write(const Moment& moment);

  std::filesystem::path file_;
  int interval_;
  std::string recipe_;
  int world_size_ = 1;
  int world_changes_ = 0;
  double pauses_ = 0;  // seconds
  bool tested_ = true;
  std::vector<Metric> metrics_;
  BestEffort best_effort_{"--metrics-file", "the training"};
};

}  // namespace sullae::train
