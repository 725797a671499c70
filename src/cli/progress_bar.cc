#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "train/monitor/progress.h"

namespace sullae::cli {

ProgressBar::ProgressBar(std::string what, std::size_t total, bool visible)
    : what_(std::move(what)),
      total_(std::max<std::size_t>(total, 1)),
      visible_(visible),
      terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (visible_ && terminal_) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::show(std::size_t done) {
  if (!visible_) return;
  const double part = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const auto rate = fmt::format("{:.0f}/s", seconds > 0 ? static_cast<double>(done) / seconds : 0);
  const auto left =
      part > 0 && part < 1 ? "  left " + train::format_duration(seconds / part - seconds) : "";
  if (terminal_) {
    constexpr std::size_t kWidth = 30;
    const auto filled = static_cast<std::size_t>(part * kWidth);
    fmt::print(stderr, "\r\x1b[K{} [{}{}] {:3.0f} %  {}/{}  {}{}", what_, std::string(filled, '#'),
               std::string(kWidth - filled, '.'), 100 * part, done, total_, rate, left);
    std::fflush(stderr);
    return;
  }
  const auto tenths = static_cast<std::size_t>(part * 10);
  if (tenths == tenths_) return;
  tenths_ = tenths;
  fmt::print(stderr, "{} {} %  {}/{}  {}{}\n", what_, tenths * 10, done, total_, rate, left);
}

}  // namespace sullae::cli
