#include "train/trained_on.h"

#include <fmt/format.h>

#include "base/number.h"
#include "base/toml.h"
#include "kafka/address.h"
#include "storage/storage.h"
#include "sullae/error.h"

namespace sullae::train {
namespace {

constexpr const char* kConfiguration = "configuration";
constexpr const char* kDirectory = "directory";

}  // namespace

void add_configuration(CheckpointMetadata& metadata, const std::string& configuration) {
  metadata.texts[kConfiguration] = configuration;
  metadata.texts[kDirectory] = std::filesystem::current_path().string();
}

std::string configuration_in(const CheckpointMetadata& metadata) {
  const auto found = metadata.texts.find(kConfiguration);
  return found == metadata.texts.end() ? "" : found->second;
}

RecipeOptions trained_on(const CheckpointMetadata& metadata, const std::string& file) {
  RecipeOptions options;
  const std::string configuration = configuration_in(metadata);
  toml::table table;
  try {
    table = toml::parse(configuration);
  } catch (const toml::parse_error& error) {
    throw InputError(
        fmt::format("{}: its configuration cannot be read: {}", file, error.description()));
  }
  const auto text = [&](const char* key, const std::string& otherwise) {
    return table[key].value_or(otherwise);
  };
  const auto directory = metadata.texts.find(kDirectory);
  const auto path = [&](const char* key) {
    const std::filesystem::path given = text(key, "");
    if (given.empty() || directory == metadata.texts.end() || storage::is_remote(given) ||
        kafka::is_address(given.native()))
      return given;
    return (std::filesystem::path(directory->second) / given).lexically_normal();
  };
  // A column may be called by a number.
  const auto column = [&](const char* key) {
    const auto number = table[key].value<std::int64_t>();
    return number ? std::to_string(*number) : text(key, "");
  };
  options.data = path("data");
  options.test_data = path("test-data");
  options.format = text("format", options.format);
  options.text_columns = column("text-columns");
  options.label_column = column("label-column");
  options.success_file = text("success-file", options.success_file);
  options.seed = table["seed"].value_or(options.seed);
  // One that is no number of TOML's.
  if (const auto seed = number_in<std::uint64_t>(text("seed", ""))) options.seed = *seed;
  options.skip_damaged = table["skip-damaged"].value_or(false);
  return options;
}

}  // namespace sullae::train
