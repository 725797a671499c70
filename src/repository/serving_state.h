// What a server and its operators have decided about a model, in a file of the model's folder: it
// outlives the server, and tells online learning which weights are served.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>

namespace sullae::repository {

/// Held by whoever serves, in the repository's folder, and by whoever learns for a model, in the
/// model's.
inline constexpr const char* kServingLock = ".serving.lock";
inline constexpr const char* kLearningLock = ".online.lock";

struct ServingState {
  /// The version that answers, or answered last; 0 where no server has served the model yet.
  std::int64_t serving = 0;
  /// Versions that were rolled back.
  std::set<std::int64_t> withdrawn;
  /// Versions that are, or were, canaries, and that nobody has promoted: they do not answer for
  /// all.
  std::set<std::int64_t> unpromoted = {};
  /// The one of them that has a share, of so many in a hundred requests; 0 for none.
  std::int64_t canary = 0;
  int canary_percent = 0;
  /// Those that a server has loaded, by its model's version_policy.
  std::set<std::int64_t> loaded = {};

  bool operator==(const ServingState&) const = default;
};

/// Of the model in `directory`. A file that cannot be read is ignored, with a warning.
ServingState read_serving_state(const std::filesystem::path& directory);
/// Throws Error.
void write_serving_state(const std::filesystem::path& directory, const ServingState& state);

}  // namespace sullae::repository
