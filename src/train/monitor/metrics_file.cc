#include "train/monitor/metrics_file.h"

#include <fmt/format.h>

#include "base/file.h"

namespace sullae::train {

void write_metrics(const std::filesystem::path& file, const std::string& recipe, int world_size,
                   const Moment& m) {
  std::string text;
  const auto add = [&](const char* name, const char* type, const char* help, double value) {
    text += fmt::format(
        "# HELP sullae_{0} {2}\n# TYPE sullae_{0} {1}\nsullae_{0}{{recipe=\"{3}\"}} {4}\n", name,
        type, help, recipe, value);
  };
  add("training_ranks", "gauge", "Ranks that train.", world_size);
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
  add("training_test_loss", "gauge", "Loss on the test set after the last epoch.", m.test_loss);
  add("training_test_accuracy_ratio", "gauge", "Accuracy on the test set after the last epoch.",
      m.test_accuracy);
  write_file(file, text);
}

}  // namespace sullae::train
