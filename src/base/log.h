// Log lines to stderr, tagged with the rank: "[sullae 2] warning: …".
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace sullae::log {

/// The rank shown in this thread's lines; -1 shows none.
void set_rank(int rank);
int rank();

void write_warning(std::string_view message);
void write_info(std::string_view message);

template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write_warning(fmt::format(format, std::forward<Args>(args)...));
}

/// What a user wants to know although nothing is wrong.
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write_info(fmt::format(format, std::forward<Args>(args)...));
}

/// Of what all ranks see alike: on rank 0, and where nothing is known of ranks.
template <class... Args>
void info_once(fmt::format_string<Args...> format, Args&&... args) {
  if (rank() <= 0) write_info(fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warning_once(fmt::format_string<Args...> format, Args&&... args) {
  if (rank() <= 0) write_warning(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace sullae::log
