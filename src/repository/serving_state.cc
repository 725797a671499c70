#include "repository/serving_state.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_message.h"
#include "base/log.h"

namespace sullae::repository {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = ".serving.json";

}  // namespace

ServingState read_serving_state(const fs::path& directory) {
  ServingState state;
  std::error_code error;
  if (fs::status(directory / kFile, error).type() == fs::file_type::not_found) return state;
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  try {
    const auto json = nlohmann::json::parse(read_file(directory / kFile, kMostBytes));
    state = {.serving = json.value("serving", std::int64_t{0}),
             .withdrawn = json.at("withdrawn").get<std::set<std::int64_t>>(),
             .unpromoted = json.value("unpromoted", std::set<std::int64_t>()),
             .canary = json.value("canary", std::int64_t{0}),
             .canary_percent = json.value("canary_percent", 0),
             .loaded = json.value("loaded", std::set<std::int64_t>())};
    if (state.canary_percent < 0 || state.canary_percent > 100) {
      log::warning("{}: its canary_percent is {}, expected 0 to 100: there is no canary",
                   (directory / kFile).string(), state.canary_percent);
      state.canary_percent = 0;
    }
  } catch (const std::exception& wrong) {
    log::warning("{}: cannot be read, and is ignored: {}", (directory / kFile).string(),
                 json_message(wrong));
  }
  return state;
}

void write_serving_state(const fs::path& directory, const ServingState& state) {
  const nlohmann::json json = {{"serving", state.serving},
                               {"withdrawn", state.withdrawn},
                               {"unpromoted", state.unpromoted},
                               {"canary", state.canary},
                               {"canary_percent", state.canary_percent},
                               {"loaded", state.loaded}};
  write_file(directory / kFile, json.dump(2) + "\n");
}

}  // namespace sullae::repository
