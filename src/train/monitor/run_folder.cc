#include "train/monitor/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sullae/error.h"
#include "train/configuration.h"
#include "train/monitor/scalars.h"

namespace sullae::train {
namespace {

std::map<std::string, std::string> settings_in(const Report& report) {
  std::map<std::string, std::string> settings{{"recipe", report.recipe},
                                              {"data", report.data},
                                              {"ranks", std::to_string(report.world_size)},
                                              {"threads", std::to_string(report.threads)},
                                              {"parameters", std::to_string(report.parameters)}};
  // A program's own words need be no TOML.
  settings.merge(
      settings_of(report.configuration)
          .value_or(std::map<std::string, std::string>{{"configuration", report.configuration}}));
  leave_out_places(settings);
  return settings;
}

}  // namespace

void RunFolder::started(const Report& report) {
  tested_ = report.tested;
  description_ = {.settings = settings_in(report), .ranks = report.world_size};
  if (log_) return write([&] { log_->describe(description_); });
  open(earlier_);
}

// What is taken over may be another process's for a moment: no reason for all ranks to wait.
void RunFolder::open(RunLog::Earlier earlier) {
  try {
    best_effort_.run([&] { log_.emplace(folder_, description_, earlier); });
  } catch (const InputError& error) {
    if (earlier != RunLog::Earlier::taken_over) throw;
    best_effort_.tell(error);
  }
}

void RunFolder::stepped(const Moment& m) {
  if (!log_ && is_due(m, interval_)) open(RunLog::Earlier::taken_over);
  write([&] {
    if (std::exchange(is_first_, false)) log_->goes_on_after(m.total_steps - 1);
    const auto before = m.total_steps - m.step - (m.epoch - 1) * m.steps_per_epoch;
    const auto steps = before + m.epochs * m.steps_per_epoch;
    log_->expect_steps(max_steps_ > 0 ? std::min(steps, max_steps_) : steps);
    unwritten_ = m;
    if (is_due(m, interval_)) write_moment();
  });
}

void RunFolder::write_moment() {
  log_->scalars(unwritten_->total_steps, scalars_of(*unwritten_));
  unwritten_.reset();
}

void RunFolder::epoch_ended(const Moment& m, const EpochReport& epoch) {
  write([&] {
    // Of an epoch that was cut short the end is seen, too.
    if (unwritten_) write_moment();
    log_->scalars(m.total_steps, scalars_of(epoch, tested_));
  });
}

void RunFolder::world_changed(const WorldChange& change) {
  pauses_ += change.pause;
  description_.ranks = change.ranks;
  description_.settings["ranks"] = std::to_string(change.ranks);
  write([&] {
    log_->describe(description_);
    if (std::exchange(is_first_, false)) log_->goes_on_after(change.step);
    log_->scalars(change.step, {{"world/ranks", change.ranks}, {"world/pauses", pauses_}});
    log_->note(fmt::format("{} rank{} on after {:.2f} s: {}", change.ranks,
                           change.ranks == 1 ? " goes" : "s go", change.pause, change.reason));
  });
}

void RunFolder::noted(const std::string& text) {
  write([&] { log_->note(text); });
}

void RunFolder::ended(const Report&) {
  write([&] { log_->completed(); });
}

void RunFolder::failed(const std::string& why) {
  write([&] { log_->failed(why); });
}

void RunFolder::stopped(const std::string& why) {
  write([&] {
    if (unwritten_) write_moment();
    log_->stopped(why);
  });
}

void RunFolder::write(const std::function<void()>& part) {
  if (log_) best_effort_.run(part);
}

}  // namespace sullae::train
