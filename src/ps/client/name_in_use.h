// Two clients of one name would each take the other for a worker that has come again.
#pragma once

#include <fmt/format.h>

#include <mutex>
#include <set>
#include <string>

#include "sullae/error.h"

namespace sullae::ps {

/// A worker's name at its servers, taken in this process for as long as it lives. Any thread.
class NameInUse {
 public:
  /// Throws InputError where it is taken.
  NameInUse(const std::string& servers, int worker, const std::string& name)
      : key_(fmt::format("{} {} {}", worker, name, servers)) {
    const std::lock_guard lock(mutex());
    if (!taken().insert(key_).second)
      throw InputError(fmt::format(
          "worker {} has a '{}' on these parameter servers already: expected another name", worker,
          name));
  }
  ~NameInUse() {
    const std::lock_guard lock(mutex());
    taken().erase(key_);
  }
  NameInUse(const NameInUse&) = delete;
  NameInUse& operator=(const NameInUse&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static std::set<std::string>& taken() {
    static std::set<std::string> names;
    return names;
  }

  std::string key_;
};

}  // namespace sullae::ps
