// How a model goes on learning while it is served: [online] of its config.toml.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>

#include "base/toml_file.h"
#include "train/fine_tune_options.h"

namespace sullae::online {

struct OnlineConfig {
  /// Whether `sullae online` looks after this model.
  bool enabled = true;
  /// The old training and test data; empty takes what the model was trained on.
  std::filesystem::path data;
  std::filesystem::path test_data;
  /// Training begins when so many samples have changed, or when the first of fewer has waited so
  /// long (0: it waits for ever).
  std::int64_t min_examples = 100;
  std::chrono::seconds max_age{600};
  train::FineTuneOptions training;
  /// Percentage points of accuracy on the old test set that a new version may lose.
  double tolerance = 0.5;
  /// Of the versions that online learning has published so many stay on the disk; 0: all.
  std::int64_t keep_versions = 10;
};

/// What `node`, a table of `file`, says. Throws InputError.
OnlineConfig read_online_table(const TomlFile& file, const toml::node& node);

/// [online] of a config.toml; all is as by default where there is none. Throws InputError.
OnlineConfig read_online_config(const std::filesystem::path& file);

}  // namespace sullae::online
