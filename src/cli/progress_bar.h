// A bar that fills, on a terminal; elsewhere a line at every tenth.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace sullae::cli {

/// Writes to stderr. Used by one thread.
class ProgressBar {
 public:
  ProgressBar(std::string what, std::size_t total, bool visible);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void show(std::size_t done);

 private:
  std::string what_;
  std::size_t total_;
  bool visible_;
  bool terminal_;
  std::size_t tenths_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace sullae::cli
