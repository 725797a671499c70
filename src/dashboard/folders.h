// What there is below a folder: runs, pipelines, models.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace sullae::dashboard {

struct Found {
  /// Folders with run.json and metrics.jsonl, by their paths from the root on, which are their
  /// names for clients.
  std::vector<std::string> runs = {};
  /// Files, likewise, beside which a pipeline's runs are kept.
  std::vector<std::string> pipelines = {};
  /// Folders with versions, likewise.
  std::vector<std::string> models = {};
  /// What could not be looked at, and why.
  std::vector<std::string> problems = {};
};

/// Looks below `root`; names are sorted. Hidden folders are left out, and so is what is within
/// models; links are followed, to what has no name of its own here; so many entries are looked at,
/// at most. Does not throw: folders come and go.
Found look_below(const std::filesystem::path& root, std::size_t most = 2'000'000);

}  // namespace sullae::dashboard
