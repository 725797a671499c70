#include "repository/versions.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/file.h"
#include "repository/publish.h"
#include "sullae/error.h"

namespace sullae::repository {

namespace fs = std::filesystem;

std::optional<std::set<std::int64_t>> versions_in(const fs::path& directory,
                                                  std::error_code& error) {
  const auto entries = entries_of(directory, error);
  if (!entries) return std::nullopt;
  std::set<std::int64_t> numbers;
  for (const fs::path& entry : *entries) {
    const auto number = version_number(entry.filename().string());
    if (number == 0) continue;
    std::error_code unknown;
    if (fs::is_directory(entry, unknown)) numbers.insert(number);
    // A link that leads nowhere, or in a circle, is no version.
    if (unknown && unknown != std::errc::no_such_file_or_directory &&
        unknown != std::errc::too_many_symbolic_link_levels) {
      error = unknown;
      return std::nullopt;
    }
  }
  return numbers;
}

fs::path model_file_in(const fs::path& version) {
  for (const char* const name : kModelFiles) {
    const auto type = fs::status(version / name).type();
    if (type == fs::file_type::not_found) continue;
    if (type == fs::file_type::regular) return version / name;
    throw InputError(fmt::format("{}: is no regular file", (version / name).string()));
  }
  return {};
}

std::set<std::int64_t> versions_in(const fs::path& directory) {
  std::error_code error;
  const auto numbers = versions_in(directory, error);
  if (!numbers)
    throw Error(fmt::format("{}: cannot be listed: {}", directory.string(), error.message()));
  return *numbers;
}

void expect_repository(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error))
    throw InputError(
        fmt::format("{}: is no folder; expected a model repository: DIR/<model>/<version>/{}",
                    directory.string(), kModelFileNames));
  const auto versions = versions_in(directory, error);
  if (!versions) return;
  for (const std::int64_t number : *versions) {
    const fs::path version = directory / std::to_string(number);
    if (std::ranges::any_of(kModelFiles,
                            [&](auto* name) { return fs::exists(version / name, error); }))
      throw InputError(fmt::format(
          "{}: is a model; expected the folder that has it, a model repository: {}",
          directory.string(),
          fs::absolute(directory / "").lexically_normal().parent_path().parent_path().string()));
  }
}

std::string link_out_of(const fs::path& directory, const fs::path& path) {
  std::error_code error;
  const fs::path root = fs::canonical(directory, error);
  if (error) return {};  // it is gone, which reading will say
  // What a link stands for need not be there yet.
  constexpr int kMostLinks = 40;
  fs::path target = path;
  std::error_code missing;
  for (int links = 0; links < kMostLinks && fs::is_symlink(fs::symlink_status(target, missing));
       ++links)
    target = target.parent_path() / fs::read_symlink(target, missing);
  const fs::path real = fs::weakly_canonical(target, error);
  if (error)
    return fs::is_symlink(fs::symlink_status(path, error))
               ? fmt::format("{}: is a link that cannot be followed", path.string())
               : std::string();
  const auto [end, rest] = std::ranges::mismatch(root, real);
  if (end == root.end()) return {};
  return fmt::format("{}: is a link that leads out of the model repository, to {}", path.string(),
                     real.string());
}

std::string way_out_of(const fs::path& directory, const fs::path& path) {
  std::set<fs::path> seen;  // links may lead in circles
  std::vector<fs::path> waiting = {path};
  while (!waiting.empty()) {
    const fs::path next = waiting.back();
    waiting.pop_back();
    if (auto way = link_out_of(directory, next); !way.empty()) return way;
    std::error_code error;
    if (!fs::is_directory(next, error) || !seen.insert(fs::canonical(next, error)).second) continue;
    for (const fs::path& entry : entries_of(next, error).value_or(std::vector<fs::path>())) {
      if (fs::is_symlink(entry, error) || fs::is_directory(entry, error)) waiting.push_back(entry);
    }
  }
  return {};
}

}  // namespace sullae::repository
