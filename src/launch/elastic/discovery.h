// A user's script that knows the hosts.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "launch/hosts.h"

namespace sullae::elastic {

/// Runs `script`, a command for the shell, each second; it prints a host a line, "node1:4". One that fails, or takes longer than
/// kLimit, leaves the hosts as they are, and says so once. Used by one thread.
class Discovery {
 public:
  static constexpr std::chrono::seconds kPeriod{1};
  static constexpr std::chrono::seconds kLimit{30};

  explicit Discovery(std::string script) : script_(std::move(script)) {}
  ~Discovery();
  Discovery(const Discovery&) = delete;
  Discovery& operator=(const Discovery&) = delete;

  /// Runs it and waits. Throws Error where it fails.
  std::vector<Host> first();
  /// What is readable when turn() has something to do; -1 for nothing.
  int fd() const { return output_.get(); }
  std::chrono::steady_clock::time_point next() const { return next_; }
  /// Does not wait. The hosts, where they have changed.
  std::optional<std::vector<Host>> turn();

 private:
  void start();
  /// Reads what is there; true where that was the end.
  bool read_output();
  std::vector<Host> finish();
  void kill();

  std::string script_;
  pid_t pid_ = -1;
  UniqueFd output_;
  std::string text_;
  std::optional<Deadline> limit_;
  std::chrono::steady_clock::time_point next_{};
  std::vector<Host> hosts_;
  bool complained_ = false;
};

}  // namespace sullae::elastic
