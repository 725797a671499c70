// All runs there are, as their records and the ends of their files say.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runs/record.h"

namespace sullae::dashboard {

/// What is known of a run without reading its curves.
struct Run {
  std::filesystem::path folder;
  runs::RunRecord record;
  double updated = 0;                   ///< the last line, seconds since 1970
  std::optional<bool> is_live = false;  ///< a process has its lock
  std::string problem;                  ///< why the record cannot be read; empty
};

/// Used by one thread at a time.
class RunIndex {
 public:
  /// By name. Looks at each file's time, and reads those that have changed.
  using Runs = std::map<std::string, std::shared_ptr<const Run>>;
  const Runs& update(const std::map<std::string, std::filesystem::path>& folders);

 private:
  struct Times {
    std::int64_t record = 0;  // nanoseconds
    std::uint64_t inode = 0;  // of the record, which is replaced
    std::int64_t metrics = 0;
    std::int64_t bytes = 0;
    bool operator==(const Times&) const = default;
  };
  static Times times_of(const std::filesystem::path& folder);

  Runs runs_;
  std::map<std::string, Times> times_;
};

}  // namespace sullae::dashboard
