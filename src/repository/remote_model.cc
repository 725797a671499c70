#include "repository/remote_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/environment.h"
#include "base/hash.h"
#include "base/percent.h"
#include "repository/mirror.h"
#include "repository/publish.h"
#include "storage/storage.h"
#include "sullae/error.h"

namespace sullae::repository {
namespace {

namespace fs = std::filesystem;

std::int64_t newest_version(const fs::path& model) {
  const auto numbers = versions_in(storage::list(model));
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
    if (holds_model(model / std::to_string(*number))) return *number;
  }
  throw InputError(
      fmt::format("{}: expected a checkpoint, or a model's folder in a repository: "
                  "<model>/<version>/{}",
                  model.string(), kModelFileNames));
}

}  // namespace

bool holds_model(const fs::path& version) {
  return std::ranges::any_of(kModelFiles,
                             [&](auto* name) { return storage::exists(version / name); });
}

std::set<std::int64_t> versions_in(const std::vector<storage::Entry>& entries) {
  std::set<std::int64_t> numbers;
  for (const auto& entry : entries) {
    const auto number = version_number(entry.name);
    if (entry.status.is_folder && number > 0) numbers.insert(number);
  }
  return numbers;
}

fs::path default_copy(const fs::path& remote, const std::string& purpose) {
  const auto environment = process_environment();
  fs::path cache;
  if (const auto own = environment("XDG_CACHE_HOME"); own && !own->empty()) {
    cache = *own;
  } else if (const auto home = environment("HOME"); home && !home->empty()) {
    cache = fs::path(*home) / ".cache";
  } else {
    throw InputError(fmt::format(
        "{}: where to copy it to is not said: expected XDG_CACHE_HOME, or HOME", remote.string()));
  }
  std::string name = percent_encode(storage::without_slash(remote).string());
  constexpr std::size_t kLongest = 200;  // of 255 that file systems take
  if (name.size() > kLongest)
    name = fmt::format("{}-{:016x}", name.substr(0, kLongest), fnv1a(name));
  return cache / "sullae" / purpose / name;
}

fs::path fetch_model(const fs::path& path) {
  const fs::path whole = storage::without_slash(path);
  const auto status = storage::status(whole);
  if (!status) throw InputError(fmt::format("{}: there is no such model", whole.string()));
  if (!status->is_folder) {
    const fs::path here = default_copy(whole, "files") / whole.filename();
    storage::make_folder(here.parent_path());
    storage::download(whole, *status, here);
    return here;
  }
  auto number = version_number(whole.filename().string());
  if (number > 0 && !holds_model(whole)) number = 0;  // a model may be called so
  const fs::path model = number > 0 ? whole.parent_path() : whole;
  if (number == 0) number = newest_version(model);
  if (!storage::is_remote(model.parent_path()))
    throw InputError(
        fmt::format("{}: expected a model in a folder: <repository>/<model>", whole.string()));
  Mirror mirror(model.parent_path(), default_copy(model.parent_path(), "models"));
  const auto name = model.filename().string();
  mirror.add(name, number);
  return mirror.local() / name / std::to_string(number);
}

}  // namespace sullae::repository
