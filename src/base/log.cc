#include "base/log.h"

#include <unistd.h>

#include <string>

namespace sullae::log {
namespace {

thread_local int rank_of_thread = -1;

// One write(2) a line, so that lines of several ranks on one terminal do not mix.
void write_line(std::string_view level, std::string_view message) {
  const std::string line = rank_of_thread < 0
                               ? fmt::format("[sullae] {}{}\n", level, message)
                               : fmt::format("[sullae {}] {}{}\n", rank_of_thread, level, message);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void set_rank(int rank) { rank_of_thread = rank; }
int rank() { return rank_of_thread; }
void write_warning(std::string_view message) { write_line("warning: ", message); }
void write_info(std::string_view message) { write_line("", message); }

}  // namespace sullae::log
