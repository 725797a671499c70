#include "train/find_model.h"

#include <fmt/format.h>

#include "base/log.h"
#include "repository/publish.h"
#include "repository/remote_model.h"
#include "repository/serving_state.h"
#include "repository/versions.h"
#include "storage/storage.h"
#include "sullae/error.h"
#include "train/checkpoints.h"

namespace sullae::train {

namespace fs = std::filesystem;

namespace {

// What operators have rolled back answers nobody, and is not taken here, either.
std::int64_t newest_of(const fs::path& model, std::set<std::int64_t> versions) {
  const auto newest = *versions.rbegin();
  const auto withdrawn = repository::read_serving_state(model).withdrawn;
  std::erase_if(versions, [&](std::int64_t version) { return withdrawn.contains(version); });
  if (versions.empty())
    throw InputError(
        fmt::format("{}: all its versions are rolled back: expected one of them, as {}",
                    model.string(), (model / std::to_string(newest)).string()));
  if (*versions.rbegin() != newest)
    log::warning_once("{}: version {} is rolled back: version {} is taken", model.string(), newest,
                      *versions.rbegin());
  return *versions.rbegin();
}

// ", as …": of what is a repository itself.
std::string example_in(const fs::path& path) {
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_directory() && !repository::versions_in(entry.path()).empty())
      return fmt::format(", as {}", entry.path().string());
  }
  return {};
}

}  // namespace

FoundModel find_model(const fs::path& given) {
  const fs::path path = storage::is_remote(given) ? repository::fetch_model(given) : given;
  if (!fs::exists(path)) throw InputError(fmt::format("{}: there is no such model", path.string()));
  if (!fs::is_directory(path)) return {.file = path};
  if (const auto file = repository::model_file_in(path); !file.empty())
    return {.file = file, .config = path.parent_path() / repository::kModelConfig};
  if (const auto versions = repository::versions_in(path); !versions.empty()) {
    const auto version = newest_of(path, versions);
    const auto file = repository::model_file_in(path / std::to_string(version));
    if (!file.empty()) return {.file = file, .config = path / repository::kModelConfig};
  }
  const auto checkpoints = checkpoints_in(path);
  if (checkpoints.empty())
    throw InputError(fmt::format(
        "{}: expected a checkpoint, a model's folder in a repository{}, or a --checkpoint-dir",
        path.string(), example_in(path)));
  const auto name_of = [](const fs::path& file) {
    const auto name = file.filename().string();
    return name.substr(0, name.rfind("-step-"));
  };
  for (const auto& file : checkpoints) {
    if (name_of(file) != name_of(checkpoints.front()))
      throw InputError(fmt::format(
          "{}: has checkpoints of {} and of {}: expected one of its files, as {}", path.string(),
          name_of(checkpoints.front()), name_of(file), checkpoints.front().string()));
  }
  return {.file = checkpoints.front()};
}

}  // namespace sullae::train
