#include "train/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace sullae::train {
namespace {

constexpr std::chrono::milliseconds kRefresh{200};

}  // namespace

Progress::Progress(bool visible, int log_interval)
    : visible_(visible), terminal_(::isatty(STDOUT_FILENO) == 1), log_interval_(log_interval) {}

void Progress::start_epoch(int epoch, int epochs, std::int64_t steps) {
  prefix_ = fmt::format("epoch {}/{}", epoch, epochs);
  steps_ = steps;
}

void Progress::step(std::int64_t step, double loss, double samples_per_second) {
  if (!visible_) return;
  const auto text = fmt::format("{}  step {}/{}  loss {:.4f}  {:.0f} samples/s", prefix_, step,
                                steps_, loss, samples_per_second);
  if (!terminal_) {
    if (step % log_interval_ == 0) line(text);
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (now - last_shown_ < kRefresh && step != steps_) return;
  last_shown_ = now;
  erase();
  std::fputs(text.c_str(), stdout);
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
