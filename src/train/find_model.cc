#include "train/find_model.h"

#include <fmt/format.h>

#include "repository/publish.h"
#include "repository/versions.h"
#include "sullae/error.h"
#include "train/checkpoints.h"

namespace sullae::train {

namespace fs = std::filesystem;

FoundModel find_model(const fs::path& path) {
  if (!fs::exists(path)) throw InputError(fmt::format("{}: there is no such model", path.string()));
  if (!fs::is_directory(path)) return {.file = path};
  if (const auto file = repository::model_file_in(path); !file.empty())
    return {.file = file, .config = path.parent_path() / repository::kModelConfig};
  const auto versions = repository::versions_in(path);
  if (!versions.empty()) {
    const auto file = repository::model_file_in(path / std::to_string(*versions.rbegin()));
    if (!file.empty()) return {.file = file, .config = path / repository::kModelConfig};
  }
  const auto checkpoints = checkpoints_in(path);
  if (checkpoints.empty())
    throw InputError(fmt::format(
        "{}: expected a checkpoint, a model's folder in a repository, or a --checkpoint-dir",
        path.string()));
  return {.file = checkpoints.front()};
}

}  // namespace sullae::train
