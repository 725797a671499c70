#include "train/monitor/metrics_file.h"

#include <fmt/format.h>

#include <cctype>

#include "base/file.h"
#include "train/monitor/scalars.h"

namespace sullae::train {

void MetricsFile::started(const Report& report) {
  recipe_ = report.recipe;
  world_size_ = report.world_size;
  metrics_ = report.metrics;
  tested_ = report.tested;
  // Of this training, also those under another first rank.
  world_changes_ = static_cast<int>(report.world_changes.size());
  pauses_ = 0;
  for (const auto& change : report.world_changes) pauses_ += change.pause;
}

void MetricsFile::stepped(const Moment& moment) {
  if (is_due(moment, interval_)) write(moment);
}

void MetricsFile::world_changed(const WorldChange& change) {
  world_size_ = change.ranks;
  ++world_changes_;
  pauses_ += change.pause;
}

void MetricsFile::epoch_ended(const Moment& moment, const EpochReport&) { write(moment); }

void MetricsFile::write(const Moment& m) {
  std::string text;
  const auto add = [&](const std::string& name, const char* type, const std::string& help,
                       double value) {
    text += fmt::format(
        "# HELP sullae_{0} {2}\n# TYPE sullae_{0} {1}\nsullae_{0}{{recipe=\"{3}\"}} {4}\n", name,
        type, help, recipe_, value);
  };
  add("training_ranks", "gauge", "Ranks that train.", world_size_);
  add("training_world_changes_total", "counter", "How often ranks came or went.", world_changes_);
  add("training_world_pause_seconds_total", "counter",
      "Time without training for ranks that came or went.", pauses_);
  add("training_epoch", "gauge", "The epoch that is being trained, from 1.", m.epoch);
  add("training_steps_total", "counter", "Optimizer steps since the training began.",
      static_cast<double>(m.total_steps));
  add("training_skipped_steps_total", "counter", "Steps skipped since gradients overflowed.",
      static_cast<double>(m.skipped_steps));
  add("training_damaged_records_total", "counter", "Records that were left out by rank 0.",
      static_cast<double>(m.damaged_records));
  add("training_loss", "gauge", "Training loss of the last step on rank 0.", m.loss);
  add("training_learning_rate", "gauge", "Learning rate.", m.lr);
  add("training_loss_scale", "gauge", "Factor on the loss.", m.loss_scale);
  add("training_samples_per_second", "gauge", "Samples a second over all ranks.",
      m.samples_per_second);
  add("training_data_wait_ratio", "gauge", "Part of rank 0's time spent waiting for data.",
      m.waiting_for_data);
  add("training_communication_wait_ratio", "gauge",
      "Part of rank 0's time spent waiting for other ranks.", m.waiting_for_ranks);
  if (tested_)
    add("training_test_loss", "gauge", "Loss on the test set after the last epoch.", m.test_loss);
  for (const Metric& metric : metrics_) {
    std::string title = metric.name;
    title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
    const auto found = m.test_metrics.find(metric.name);
    add(fmt::format("training_test_{}{}", metric.name, metric.in_percent ? "_ratio" : ""), "gauge",
        title + " on the test set after the last epoch.",
        found == m.test_metrics.end() ? 0 : found->second);
  }
  best_effort_.run([&] { write_file(file_, text); });
}

}  // namespace sullae::train
