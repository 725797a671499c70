// Log lines to stderr, tagged with the rank: "[sullae 2] warning: …".
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace sullae::log {

/// The rank shown in this thread's lines; -1 shows none.
void set_rank(int rank);

void write_warning(std::string_view message);

template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write_warning(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace sullae::log
