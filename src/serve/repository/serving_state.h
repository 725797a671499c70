// What a server and its operators have decided about a model, in a file of the model's folder: it outlives the
// server, and tells online learning which weights are served.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <system_error>

namespace sullae::serve {

struct ServingState {
  /// The version that answers, or answered last; 0 where no server has served the model yet.
  std::int64_t serving = 0;
  /// Versions that were rolled back.
  std::set<std::int64_t> withdrawn;

  bool operator==(const ServingState&) const = default;
};

/// Of the model in `directory`. A file that cannot be read is ignored, with a warning.
ServingState read_serving_state(const std::filesystem::path& directory);
/// Throws Error.
void write_serving_state(const std::filesystem::path& directory, const ServingState& state);

/// The versions on the disk; nothing, with `error` set, where the folder cannot be listed now.
std::optional<std::set<std::int64_t>> versions_in(const std::filesystem::path& directory,
                                                  std::error_code& error);
/// Throws Error instead.
std::set<std::int64_t> versions_in(const std::filesystem::path& directory);

/// Why `path` leads out of `repository`; an empty text where it is within.
std::string link_out_of(const std::filesystem::path& repository, const std::filesystem::path& path);
/// The same of `path` and of all below it.
std::string way_out_of(const std::filesystem::path& repository, const std::filesystem::path& path);

}  // namespace sullae::serve
