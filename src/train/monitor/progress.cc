#include "train/monitor/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace sullae::train {
namespace {

constexpr std::chrono::milliseconds kRefresh{200};

}  // namespace

std::string format_duration(double seconds) {
  const auto whole = static_cast<long>(std::lround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string format_moment(const Moment& m) {
  std::string text = fmt::format("epoch {}/{}  step {}/{}  loss {:.4f}  {:.0f} samples/s", m.epoch,
                                 m.epochs, m.step, m.steps_per_epoch, m.loss, m.samples_per_second);
  text += fmt::format("  waiting: data {:.0f} %, ranks {:.0f} %", 100 * m.waiting_for_data,
                      100 * m.waiting_for_ranks);
  if (m.seconds_left > 0) text += "  left " + format_duration(m.seconds_left);
  if (m.skipped_steps > 0) text += fmt::format("  skipped {}", m.skipped_steps);
  return text;
}

Progress::Progress(bool visible, int log_interval)
    : visible_(visible), terminal_(::isatty(STDOUT_FILENO) == 1), log_interval_(log_interval) {}

void Progress::step(const Moment& moment) {
  if (!visible_) return;
  if (!terminal_) {
    if (moment.step % log_interval_ == 0) line(format_moment(moment));
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (now - last_shown_ < kRefresh && moment.step != moment.steps_per_epoch) return;
  last_shown_ = now;
  erase();
  std::fputs(format_moment(moment).c_str(), stdout);
  std::fflush(stdout);
  shown_ = true;
}

void Progress::line(const std::string& text) {
  if (!visible_) return;
  erase();
  std::puts(text.c_str());
  std::fflush(stdout);
}

void Progress::erase() {
  if (shown_) std::fputs("\r\x1b[K", stdout);
  shown_ = false;
}

}  // namespace sullae::train
