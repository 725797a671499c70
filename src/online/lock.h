// One process at a time learns for a model.
#pragma once

#include <filesystem>

#include "base/fd.h"

namespace sullae::online {

/// Held until it is destroyed or the process ends, however it does.
class OnlineLock {
 public:
  /// Of the model in `directory`. Throws InputError where another process has it, and Error.
  explicit OnlineLock(const std::filesystem::path& directory);

  /// Whether a process has it.
  static bool is_held(const std::filesystem::path& directory);

 private:
  UniqueFd fd_;
};

}  // namespace sullae::online
