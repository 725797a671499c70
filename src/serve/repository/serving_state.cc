#include "serve/repository/serving_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "sullae/error.h"
#include "train/export.h"

namespace sullae::serve {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = ".serving.json";

}  // namespace

ServingState read_serving_state(const fs::path& directory) {
  ServingState state;
  std::ifstream stream(directory / kFile);
  if (!stream) return state;
  try {
    const auto json = nlohmann::json::parse(stream);
    state = {.serving = json.value("serving", std::int64_t{0}),
             .withdrawn = json.at("withdrawn").get<std::set<std::int64_t>>()};
  } catch (const nlohmann::json::exception& error) {
    log::warning("{}: cannot be read, and is ignored: {}", (directory / kFile).string(),
                 error.what());
  }
  return state;
}

void write_serving_state(const fs::path& directory, const ServingState& state) {
  const nlohmann::json json = {{"serving", state.serving}, {"withdrawn", state.withdrawn}};
  write_file(directory / kFile, json.dump(2) + "\n");
}

std::optional<std::set<std::int64_t>> versions_in(const fs::path& directory,
                                                  std::error_code& error) {
  const auto entries = entries_of(directory, error);
  if (!entries) return std::nullopt;
  std::set<std::int64_t> numbers;
  for (const fs::path& entry : *entries) {
    const auto number = train::version_number(entry.filename().string());
    std::error_code gone;
    if (number > 0 && fs::is_directory(entry, gone)) numbers.insert(number);
  }
  return numbers;
}

std::set<std::int64_t> versions_in(const fs::path& directory) {
  std::error_code error;
  const auto numbers = versions_in(directory, error);
  if (!numbers)
    throw Error(fmt::format("{}: cannot be listed: {}", directory.string(), error.message()));
  return *numbers;
}

std::string link_out_of(const fs::path& repository, const fs::path& path) {
  std::error_code error;
  const fs::path root = fs::canonical(repository, error);
  const fs::path real = fs::canonical(path, error);
  if (error) return {};  // it is gone, or cannot be read, which reading will say
  const auto [end, rest] = std::ranges::mismatch(root, real);
  if (end == root.end()) return {};
  return fmt::format("{}: is a link that leads out of the model repository, to {}", path.string(),
                     real.string());
}

std::string way_out_of(const fs::path& repository, const fs::path& path) {
  if (auto way = link_out_of(repository, path); !way.empty()) return way;
  std::error_code error;
  if (!fs::is_directory(path, error)) return {};
  const auto entries = entries_of(path, error);
  for (const fs::path& entry : entries.value_or(std::vector<fs::path>())) {
    const bool below = fs::is_symlink(entry, error) || fs::is_directory(entry, error);
    if (auto way = below ? way_out_of(repository, entry) : std::string(); !way.empty()) return way;
  }
  return {};
}

}  // namespace sullae::serve
