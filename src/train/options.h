// The options that every recipe takes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace sullae::train {

struct TrainOptions {
  /// The data set; empty looks in the recipe's usual place.
  std::filesystem::path data;
  int epochs = 1;
  /// Samples a step over all ranks together; each rank takes an equal part.
  int batch_size = 64;
  double lr = 1e-3;
  /// "adam" or "sgd".
  std::string optimizer = "adam";
  double momentum = 0.9;
  double weight_decay = 0;
  /// "constant", "linear" (to zero at the end) or "cosine" (likewise).
  std::string lr_schedule = "constant";
  /// Gradients are scaled down to this norm; 0 leaves them.
  double clip_norm = 0;
  /// How gradients travel: "none", "float16", "bfloat16" or "topk:FRACTION".
  std::string compression = "none";
  bool overlap = true;
  std::uint64_t seed = 1;
  /// Where checkpoints go after each epoch; empty writes none.
  std::filesystem::path checkpoint_dir;
  int keep_checkpoints = 2;
  bool resume = false;
  /// A JSON file with the results.
  std::filesystem::path report;
  /// Ends the training after this many steps, for trials; 0 trains all epochs.
  std::int64_t max_steps = 0;
  /// Steps between progress lines where the output is not a terminal.
  int log_interval = 200;
  /// Numbers that only this recipe knows, by flag name.
  std::map<std::string, double> extra;
};

/// `directory` where it exists, else empty: for the usual places of data sets.
std::filesystem::path where_present(const std::filesystem::path& directory);

/// Throws InputError for values that cannot be, naming the flag.
void check_options(const TrainOptions& options, int world_size);

}  // namespace sullae::train
