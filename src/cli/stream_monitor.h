// Shows how far a stream is, on stderr and in a file for Prometheus.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/best_effort.h"
#include "predict/stream.h"

namespace sullae::cli {

/// Used by one thread.
class StreamMonitor {
 public:
  /// `metrics` is replaced as a whole, for node_exporter's textfile collector; empty for none. Each
  /// rank shows its own part.
  StreamMonitor(std::string source, std::filesystem::path metrics, int rank);
  ~StreamMonitor();
  StreamMonitor(const StreamMonitor&) = delete;
  StreamMonitor& operator=(const StreamMonitor&) = delete;

  /// A line every ten seconds while something goes on; on a terminal one that changes.
  void show(const predict::StreamProgress& progress);
  /// Writes what there is at the end, however short the run was.
  void finish(const predict::StreamProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;
  void write(const predict::StreamProgress& progress);

  std::string source_;
  std::filesystem::path metrics_;
  BestEffort best_effort_{"--metrics-file", "predicting"};
  int rank_;
  bool terminal_;
  Clock::time_point shown_ = Clock::now();
  std::uint64_t predicted_ = 0;  // when it was shown
  double a_second_ = 0;
  Clock::time_point last_ = Clock::now();  // when something was predicted
  std::uint64_t seen_ = 0;
};

}  // namespace sullae::cli
