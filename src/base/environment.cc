#include "base/environment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/number.h"
#include "sullae/error.h"

namespace sullae {
namespace {

// A number within [least, 1e8], or nothing where the variable is not set.
std::optional<double> read_number(const Environment& environment, const char* variable,
                                  const char* expected, double least) {
  const auto text = environment(variable);
  if (!text) return std::nullopt;
  const auto number = number_in<double>(*text);
  if (!number || !std::isfinite(*number) || *number < least || *number > 1e8)
    throw InputError(fmt::format("{}='{}': expected {}", variable, *text, expected));
  return number;
}

}  // namespace

Environment process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

void read_seconds(const Environment& environment, const char* variable, ZeroMeans zero,
                  std::chrono::milliseconds& into) {
  const auto seconds =
      zero == ZeroMeans::no_limit
          ? read_number(environment, variable, "a number of seconds, 0 for never", 0)
          : read_number(environment, variable, "a positive number of seconds",
                        std::numeric_limits<double>::min());
  if (seconds) into = std::chrono::milliseconds{static_cast<long long>(std::ceil(*seconds * 1e3))};
}

void read_milliseconds(const Environment& environment, const char* variable,
                       std::chrono::microseconds& into) {
  if (const auto time =
          read_number(environment, variable, "a number of milliseconds from 0.01 to 1e8", 0.01)) {
    into = std::chrono::microseconds{static_cast<long long>(*time * 1e3)};
  }
}

void read_count(const Environment& environment, const char* variable, std::size_t& into,
                long long least) {
  if (const auto text = environment(variable)) {
    constexpr long long kMost = 1LL << 40;
    into = static_cast<std::size_t>(parse_integer(*text, variable, least, kMost));
  }
}

void read_switch(const Environment& environment, const char* variable, bool& into) {
  if (const auto text = environment(variable)) into = parse_integer(*text, variable, 0, 1) == 1;
}

void read_text(const Environment& environment, const char* variable, std::string& into) {
  if (auto text = environment(variable)) into = *std::move(text);
}

void read_choice(const Environment& environment, const char* variable,
                 std::span<const std::string_view> choices, std::size_t& into) {
  const auto text = environment(variable);
  if (!text) return;
  const auto found = std::ranges::find(choices, *text);
  if (found == choices.end()) {
    throw InputError(
        fmt::format("{}='{}': expected one of {}", variable, *text, fmt::join(choices, ", ")));
  }
  into = static_cast<std::size_t>(found - choices.begin());
}

long long parse_integer(std::string_view text, std::string_view what, long long least,
                        long long most) {
  const auto value = number_in<long long>(text);
  if (!value || *value < least || *value > most) {
    throw InputError(
        fmt::format("{}: '{}' is not an integer between {} and {}", what, text, least, most));
  }
  return *value;
}

}  // namespace sullae
