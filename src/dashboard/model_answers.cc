#include "dashboard/model_answers.h"

#include <sys/stat.h>

#include "base/file_lock.h"
#include "repository/publish.h"
#include "repository/serving_state.h"
#include "repository/versions.h"
#include "sullae/error.h"

namespace sullae::dashboard {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json version_of(const fs::path& model, std::int64_t number,
                const repository::ServingState& serving) {
  const auto folder = model / std::to_string(number);
  json shown{{"version", number},
             {"answers", serving.serving == number},
             {"withdrawn", serving.withdrawn.contains(number)}};
  try {
    const auto file = repository::model_file_in(folder);
    struct stat status = {};
    if (!file.empty() && ::stat(file.c_str(), &status) == 0) {
      shown["bytes"] = status.st_size;
      shown["published"] = status.st_mtim.tv_sec;
      shown["kind"] = file.filename() == repository::kModelFile    ? "checkpoint"
                      : file.filename() == repository::kScriptFile ? "TorchScript"
                                                                   : "AOTInductor";
    }
  } catch (const std::exception& error) {  // a folder that is not to be looked at
    shown["problem"] = error.what();
  }
  return shown;
}

}  // namespace

json list_models(Catalogue& catalogue) {
  json models = json::array();
  for (const auto& name : catalogue.contents()->found.models) {
    const auto folder = catalogue.path(name);
    std::error_code error;
    const auto versions = repository::versions_in(folder, error);
    if (!versions) continue;  // gone meanwhile
    const auto serving = repository::read_serving_state(folder);
    json shown{{"id", name},
               {"name", folder.filename().string()},
               {"served", is_locked(folder / ".." / repository::kServingLock).value_or(false)},
               {"learning", is_locked(folder / repository::kLearningLock).value_or(false)},
               {"versions", json::array()}};
    for (auto version = versions->rbegin(); version != versions->rend(); ++version)
      shown["versions"].push_back(version_of(folder, *version, serving));
    models.push_back(std::move(shown));
  }
  return {{"models", std::move(models)}};
}

}  // namespace sullae::dashboard
