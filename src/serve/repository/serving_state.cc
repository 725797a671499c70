#include "serve/repository/serving_state.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
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

std::set<std::int64_t> versions_in(const fs::path& directory) {
  std::set<std::int64_t> numbers;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const auto number = train::version_number(entry.path().filename().string());
    if (number > 0 && entry.is_directory(error)) numbers.insert(number);
  }
  return numbers;
}

}  // namespace sullae::serve
