// A user's script that knows the hosts.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "launch/elastic/host_source.h"

namespace sullae::elastic {

/// Runs `script`, a command for the shell, each second; it prints a host a line, "node1:4". One
/// that fails, or takes longer than kLimit, leaves the hosts as they are, and says so once. Used by
/// one thread.
class Discovery final : public HostSource {
 public:
  static constexpr std::chrono::seconds kPeriod{1};
  static constexpr std::chrono::seconds kLimit{30};

  explicit Discovery(std::string script) : script_(std::move(script)) {}
  ~Discovery() override;
  Discovery(const Discovery&) = delete;
  Discovery& operator=(const Discovery&) = delete;

  /// Runs it and waits. Throws Error where it fails.
  Supply first() override;
  int fd() const override { return output_.get(); }
  std::chrono::steady_clock::time_point next() const override { return next_; }
  std::optional<Supply> turn() override;

 private:
  void start();
  /// Reads what is there, and closes at the end.
  void read_output();
  /// Empty as long as the script runs.
  std::optional<std::vector<Host>> finish();
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
