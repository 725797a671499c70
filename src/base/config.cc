#include "base/config.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

#include "sullae/error.h"

namespace sullae {
namespace {

// A number within [least, 1e8], or nothing where the variable is not set.
std::optional<double> read_number(const Environment& environment, const char* variable,
                                  const char* expected, double least) {
  const auto text = environment(variable);
  if (!text) return std::nullopt;
  double number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  const bool whole = error == std::errc{} && end == text->data() + text->size();
  if (!whole || !std::isfinite(number) || number < least || number > 1e8)
    throw InputError(fmt::format("{}='{}': expected {}", variable, *text, expected));
  return number;
}

enum class Zero { forbidden, never };

void read_seconds(const Environment& environment, const char* variable, Zero zero, auto& into) {
  const auto seconds =
      zero == Zero::never
          ? read_number(environment, variable, "a number of seconds, 0 for never", 0)
          : read_number(environment, variable, "a positive number of seconds",
                        std::numeric_limits<double>::min());
  if (seconds) into = std::chrono::milliseconds{static_cast<long long>(std::ceil(*seconds * 1e3))};
}

void read_count(const Environment& environment, const char* variable, std::size_t& into,
                long long least = 0) {
  if (const auto text = environment(variable)) {
    constexpr long long kMost = 1LL << 40;
    into = static_cast<std::size_t>(parse_integer(*text, variable, least, kMost));
  }
}

void read_switch(const Environment& environment, const char* variable, bool& into) {
  if (const auto text = environment(variable)) into = parse_integer(*text, variable, 0, 1) == 1;
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
  read_seconds(environment, "SULLAE_TIMEOUT", Zero::forbidden, config.timeout);
  read_seconds(environment, "SULLAE_RENDEZVOUS_TIMEOUT", Zero::forbidden,
               config.rendezvous_timeout);
  read_seconds(environment, "SULLAE_STALL_WARNING", Zero::never, config.stall_warning);
  read_seconds(environment, "SULLAE_STALL_TIMEOUT", Zero::never, config.stall_timeout);
  read_count(environment, "SULLAE_FUSION_THRESHOLD", config.fusion_threshold);
  read_count(environment, "SULLAE_CACHE_CAPACITY", config.cache_capacity);
  if (const auto time = read_number(environment, "SULLAE_CYCLE_TIME",
                                    "a number of milliseconds from 0.01 to 1e8", 0.01)) {
    config.cycle_time = std::chrono::microseconds{static_cast<long long>(*time * 1e3)};
  }
  if (auto transport = environment("SULLAE_TRANSPORT")) config.transport = *transport;
  if (auto algorithm = environment("SULLAE_ALLREDUCE_ALGORITHM"))
    config.allreduce_algorithm = *algorithm;
  read_switch(environment, "SULLAE_HIERARCHICAL_ADASUM", config.hierarchical_adasum);
  read_switch(environment, "SULLAE_HIERARCHICAL_NCCL", config.hierarchical_nccl);
  if (auto transport = environment("SULLAE_DEVICE_TRANSPORT")) {
    if (*transport != "auto" && *transport != "nccl" && *transport != "host") {
      throw InputError(fmt::format("SULLAE_DEVICE_TRANSPORT='{}': expected one of auto, nccl, host",
                                   *transport));
    }
    config.device_transport = *transport;
  }
  read_switch(environment, "SULLAE_AUTOTUNE", config.autotune);
  read_count(environment, "SULLAE_AUTOTUNE_WARMUP_SAMPLES", config.autotune_warmup_samples);
  read_count(environment, "SULLAE_AUTOTUNE_STEPS_PER_SAMPLE", config.autotune_steps_per_sample, 1);
  if (auto log = environment("SULLAE_AUTOTUNE_LOG")) config.autotune_log = *log;
  if (auto timeline = environment("SULLAE_TIMELINE")) config.timeline = *timeline;
  if (auto host_id = environment("SULLAE_HOST_ID")) config.host_id = *host_id;
  if (auto secret = environment("SULLAE_JOB_SECRET")) {
    constexpr std::size_t kMost = 256;
    if (secret->size() > kMost || secret->find('\n') != std::string::npos)
      throw InputError(
          fmt::format("SULLAE_JOB_SECRET: expected one line of at most {} bytes", kMost));
    config.job_secret = *secret;
  }
  return config;
}

}  // namespace sullae
