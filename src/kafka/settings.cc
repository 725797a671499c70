#include "kafka/settings.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <system_error>

#include "base/ascii.h"
#include "sullae/error.h"

namespace sullae::kafka {
namespace {

Properties read_properties(const std::string& file) {
  std::ifstream stream(file);
  if (!stream)
    throw InputError(
        fmt::format("SULLAE_KAFKA_CONFIG: {}: {}", file, std::generic_category().message(errno)));
  Properties properties;
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    line = trimmed(line);
    if (line.empty() || line.starts_with('#')) continue;
    const auto equals = line.find('=');
    if (equals == std::string::npos)
      throw InputError(fmt::format("{}, line {}: '{}': expected name=value", file, number, line));
    properties.emplace_back(trimmed(line.substr(0, equals)), trimmed(line.substr(equals + 1)));
  }
  return properties;
}

}  // namespace

Settings read_settings(const Environment& environment) {
  Settings settings;
  read_seconds(environment, "SULLAE_KAFKA_TIMEOUT", ZeroMeans::error, settings.timeout);
  read_text(environment, "SULLAE_KAFKA_CONFIG", settings.file);
  if (!settings.file.empty()) settings.properties = read_properties(settings.file);
  return settings;
}

}  // namespace sullae::kafka
