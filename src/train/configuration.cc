#include "train/configuration.h"

#include <fmt/format.h>

#include <sstream>

#include "base/toml.h"

namespace sullae::train {
namespace {

std::string text_of(const toml::node& node) {
  if (const auto* const text = node.as_string()) return text->get();
  if (const auto* const number = node.as_floating_point()) return fmt::format("{}", number->get());
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  return text.str();
}

}  // namespace

std::optional<std::map<std::string, std::string>> settings_of(const std::string& configuration) {
  std::map<std::string, std::string> settings;
  try {
    const toml::table table = toml::parse(configuration);
    for (const auto& [key, value] : table) settings.emplace(key.str(), text_of(value));
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
  return settings;
}

void leave_out_places(std::map<std::string, std::string>& settings) {
  for (const char* const where :
       {"run-dir", "report", "tensorboard-dir", "metrics-file", "checkpoint-dir", "timeline"})
    settings.erase(where);
}

std::string changed_settings(const std::string& before, const std::string& now) {
  auto earlier = settings_of(before).value_or(std::map<std::string, std::string>{});
  auto current = settings_of(now).value_or(std::map<std::string, std::string>{});
  leave_out_places(current);
  for (const char* const of_this_process :
       {"resume", "max-steps", "export", "log-interval", "checkpoint-steps", "keep-checkpoints",
        "data-workers", "prefetch", "cache-megabytes"})
    current.erase(of_this_process);
  std::string text;
  for (const auto& [name, value] : current) {
    const auto was = earlier.find(name);
    if (was == earlier.end() || was->second == value) continue;
    text += fmt::format("{}{} {} (was {})", text.empty() ? "" : ", ", name, value, was->second);
  }
  return text;
}

}  // namespace sullae::train
