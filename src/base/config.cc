#include "base/config.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "sullae/error.h"

namespace sullae {
namespace {

void read_seconds(const Environment& environment, const char* variable,
                  std::chrono::milliseconds& into) {
  const auto text = environment(variable);
  if (!text) return;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), seconds);
  const bool whole = error == std::errc{} && end == text->data() + text->size();
  if (!whole || !std::isfinite(seconds) || seconds <= 0 || seconds > 1e8) {
    throw InputError(
        fmt::format("{}='{}': expected a positive number of seconds", variable, *text));
  }
  into = std::chrono::milliseconds{static_cast<long long>(std::ceil(seconds * 1e3))};
}

}  // namespace

Environment process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

long long parse_integer(std::string_view text, std::string_view what, long long least,
                        long long most) {
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
    throw InputError(
        fmt::format("{}: '{}' is not an integer between {} and {}", what, text, least, most));
  }
  return value;
}

Config Config::from(const Environment& environment) {
  Config config;
  read_seconds(environment, "SULLAE_TIMEOUT", config.timeout);
  read_seconds(environment, "SULLAE_RENDEZVOUS_TIMEOUT", config.rendezvous_timeout);
  if (auto transport = environment("SULLAE_TRANSPORT")) {
    if (*transport != "auto" && *transport != "shm" && *transport != "ucx") {
      throw InputError(fmt::format("SULLAE_TRANSPORT='{}': expected auto, shm or ucx", *transport));
    }
    config.transport = *transport;
  }
  if (auto host_id = environment("SULLAE_HOST_ID")) config.host_id = *host_id;
  return config;
}

}  // namespace sullae
