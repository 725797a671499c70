// Settings that come from the environment: each layer reads its own, with these.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sullae {

/// Looks a variable up; empty when it is not set. Tests pass their own.
using Environment = std::function<std::optional<std::string>(std::string_view)>;

/// The environment of this process. A variable that is set to the empty string counts as not set.
Environment process_environment();

// Each of these throws InputError that names the variable, its value and what was expected, and
// leaves `into` as it is where the variable is not set.

enum class ZeroMeans { error, no_limit };

/// Seconds, with fractions, rounded up.
void read_seconds(const Environment& environment, const char* variable, ZeroMeans zero,
                  std::chrono::milliseconds& into);
/// Milliseconds, with fractions, from 0.01 on.
void read_milliseconds(const Environment& environment, const char* variable,
                       std::chrono::microseconds& into);
void read_count(const Environment& environment, const char* variable, std::size_t& into,
                long long least = 0);
/// 0 or 1.
void read_switch(const Environment& environment, const char* variable, bool& into);
void read_text(const Environment& environment, const char* variable, std::string& into);
/// The place of one of `choices`.
void read_choice(const Environment& environment, const char* variable,
                 std::span<const std::string_view> choices, std::size_t& into);

/// Parses a whole decimal number within [least, most]. Throws InputError naming `what`.
long long parse_integer(std::string_view text, std::string_view what, long long least,
                        long long most);

}  // namespace sullae
