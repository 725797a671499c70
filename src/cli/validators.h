// Options that several commands declare, and checks of their values, with messages that say what
// was expected.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/number.h"
#include "sullae/error.h"

namespace sullae::cli {

inline constexpr int kAnyMore = 1 << 30;

/// A whole number from `least` to `most`.
inline CLI::Validator integer_from(int least, int most = kAnyMore) {
  return {[least, most](const std::string& text) {
            const auto value = number_in<long long>(text);
            if (value && *value >= least && *value <= most) return std::string();
            if (value && *value > most && most == kAnyMore)
              return "'" + text + "' is too large: expected at most " + std::to_string(most);
            return "'" + text + "' is not a whole number of " + std::to_string(least) +
                   (most == kAnyMore ? " or more" : " to " + std::to_string(most));
          },
          ""};
}

inline CLI::Validator positive_integer() { return integer_from(1); }

/// 0 is any that is free.
inline CLI::Validator port() { return integer_from(0, 65535); }

/// Of --env: "NAME=VALUE", or "NAME" with this environment's value.
inline std::pair<std::string, std::string> variable_of(const std::string& entry) {
  const auto equals = entry.find('=');
  const std::string name = entry.substr(0, equals);
  if (name.empty()) throw InputError("--env '" + entry + "': expected NAME or NAME=VALUE");
  if (equals != std::string::npos) return {name, entry.substr(equals + 1)};
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr)
    throw InputError("--env " + name + ": is not set here; expected NAME=VALUE");
  return {name, value};
}

/// Whatever a Value can hold. Where the least is, is for whoever uses it to say.
template <class Value>
CLI::Validator whole_number() {
  return {[](const std::string& text) {
            return number_in<Value>(text) ? std::string() : "'" + text + "' is not a whole number";
          },
          ""};
}

inline CLI::Validator any_number() {
  return {[](const std::string& text) {
            const auto value = number_in<double>(text);
            return value && std::isfinite(*value) ? std::string()
                                                  : "'" + text + "' is not a number";
          },
          ""};
}

/// Empty is what a variable of the shell's is that nobody has set, and would be taken for a flag
/// that was not given.
inline CLI::Validator nonempty() {
  return {[](const std::string& text) {
            return text.empty() ? std::string("is empty") : std::string();
          },
          ""};
}

inline std::chrono::milliseconds to_milliseconds(double seconds) {
  return std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
}

/// A number, with or without a fraction: above 0, or 0 too.
enum class Zero { refused, allowed };
inline CLI::Validator number(Zero zero) {
  return {[zero](const std::string& text) {
            const auto value = number_in<double>(text);
            if (value && std::isfinite(*value) &&
                (*value > 0 || (zero == Zero::allowed && *value == 0)))
              return std::string();
            return "'" + text + "' is not a number " +
                   (zero == Zero::allowed ? "of 0 or more" : "above 0");
          },
          ""};
}

/// A flag `--no-…` that switches off what is on. CLI11's own form of it shows its machinery in
/// --help.
inline CLI::Option* add_negative_flag(CLI::App& app, const std::string& name, bool& value,
                                      const std::string& help) {
  const auto set = [&value](std::int64_t given) {
    value = given <= 0;
  };
  return app.add_flag_function(name, set, help)->default_str(value ? "false" : "true");
}

}  // namespace sullae::cli
