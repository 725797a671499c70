// The curves of runs, read when they are asked for, and kept while there is room.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "runs/history.h"

namespace sullae::dashboard {

/// Any thread.
class Histories {
 public:
  explicit Histories(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// Calls `look` with what `file` says now; others that ask for the same file wait. Throws what
  /// reading throws.
  void with(const std::filesystem::path& file,
            const std::function<void(const runs::History&)>& look);

 private:
  struct Entry {
    explicit Entry(const std::filesystem::path& file) : history(file) {}
    std::mutex mutex;
    runs::History history;
    std::size_t bytes = 0;                                  // as it was counted
    std::list<std::filesystem::path>::iterator place = {};  // in used_
  };
  void make_room();

  std::size_t most_bytes_;
  std::mutex mutex_;
  std::map<std::filesystem::path, std::shared_ptr<Entry>> entries_;
  std::list<std::filesystem::path> used_;  // the last one first
  std::size_t bytes_ = 0;
};

}  // namespace sullae::dashboard
