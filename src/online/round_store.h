// The rounds of online learning, and the calls for one, beside a model's samples: what the server
// and the process that learns know of each other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "online/database.h"
#include "online/round.h"

namespace sullae::online {

/// Tables of the file that holds the samples. Any thread may call it, and several processes may
/// have it open.
class RoundStore {
 public:
  /// Throws Error.
  explicit RoundStore(const std::filesystem::path& file);

  /// A new round; gets its id. Throws Error.
  void begin(Round& round);
  /// Replaces the round of this id. Throws Error.
  void update(const Round& round);
  /// The newest first, at most `limit`. Throws Error.
  std::vector<Round> newest(std::int64_t limit) const;
  /// Those that no process has ended.
  std::vector<Round> unfinished() const;
  /// The revision up to which samples have been trained, whatever was thought of it.
  std::int64_t attempted_revision() const;
  /// How many ended in each state, by name.
  std::map<std::string, std::int64_t> counts() const;

  /// Notes that `author` wants a round now. Returns the call's number, from 1. Throws Error.
  std::int64_t call(const std::string& author);
  /// The last call, and the last that a round answers; 0 for none.
  std::int64_t last_call() const;
  std::int64_t answered_call() const;

 private:
  void write(const Round& round);
  std::vector<Round> select(const std::string& condition) const;
  std::int64_t number(const std::string& sql) const;

  std::mutex mutex_;
  Database database_;  // guarded by mutex_
  // Who writes may wait for another process; who reads need not.
  mutable std::mutex reading_mutex_;
  mutable Database reader_;  // guarded by reading_mutex_
};

}  // namespace sullae::online
