#include "train/monitor/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "base/counted.h"
#include "train/evaluation.h"
#include "train/monitor/report.h"

namespace sullae::train {
namespace {

constexpr std::chrono::milliseconds kRefresh{200};

// "1234" or "1.2 million".
std::string count_of(std::int64_t parameters) {
  constexpr std::int64_t kMillion = 1'000'000;
  return parameters < kMillion / 10
             ? fmt::to_string(parameters)
             : fmt::format("{:.1f} million", static_cast<double>(parameters) / kMillion);
}

// Nothing where no steps were timed, as of the first ones.
std::string format_speed(double samples_per_second) {
  return samples_per_second > 0 ? fmt::format("  {:.0f} samples/s", samples_per_second) : "";
}

}  // namespace

std::string format_duration(double seconds) {
  const auto whole = static_cast<long>(std::lround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string format_moment(const Moment& m) {
  std::string text = fmt::format("epoch {}/{}  step {}/{}  loss {:.4f}", m.epoch, m.epochs, m.step,
                                 m.steps_per_epoch, m.loss);
  text += format_speed(m.samples_per_second);
  text += fmt::format("  waiting: data {:.0f} %, ranks {:.0f} %", 100 * m.waiting_for_data,
                      100 * m.waiting_for_ranks);
  if (m.seconds_left > 0) text += "  left " + format_duration(m.seconds_left);
  if (m.skipped_steps > 0) text += fmt::format("  skipped {}", m.skipped_steps);
  return text;
}

Progress::Progress(int log_interval)
    : terminal_(::isatty(STDOUT_FILENO) == 1), log_interval_(log_interval) {}

void Progress::started(const Report& r) {
  tested_ = r.tested;
  metrics_ = r.metrics;
  line(fmt::format("{}: {}; {} parameters; {} of {}, {} samples a step", r.recipe, r.data,
                   count_of(r.parameters), counted(r.world_size, "rank"),
                   counted(r.threads, "thread"), r.batch_size));
}

void Progress::stepped(const Moment& moment) {
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

void Progress::epoch_ended(const Moment& moment, const EpochReport& e) {
  std::string text =
      fmt::format("epoch {}/{}  train loss {:.4f}", e.epoch, moment.epochs, e.train_loss);
  if (tested_) text += fmt::format("  test loss {:.4f}", e.test_loss);
  for (const Metric& metric : metrics_)
    text += fmt::format("  test {} {}", metric.name,
                        format_metric(metric, e.test_metrics.at(metric.name)));
  line(text + format_speed(e.samples_per_second));
}

void Progress::world_changed(const WorldChange& change) {
  line(fmt::format("{} on after {:.2f} s: {}",
                   change.ranks == 1 ? "1 rank goes" : fmt::format("{} ranks go", change.ranks),
                   change.pause, change.reason));
}

void Progress::noted(const std::string& text) { line(text); }

void Progress::stopped(const std::string& why) { line(why); }

void Progress::ended(const Report& r) {
  std::string text;
  for (const Metric& metric : metrics_)
    text += fmt::format("test {} {}, ", metric.name, format_test_metric(metric, r));
  if (r.samples_per_second > 0) text += fmt::format("{:.0f} samples/s, ", r.samples_per_second);
  text += fmt::format("{:.1f} s in all", r.seconds);
  if (const auto memory = format_memory(r); !memory.empty())
    text += fmt::format(", at most {} of memory a rank", memory);
  if (r.damaged_records > 0)
    text += fmt::format(", {} damaged records left out", r.damaged_records);
  line(text);
}

void Progress::line(const std::string& text) {
  erase();
  std::puts(text.c_str());
  std::fflush(stdout);
}

void Progress::erase() {
  if (shown_) std::fputs("\r\x1b[K", stdout);
  shown_ = false;
}

}  // namespace sullae::train
