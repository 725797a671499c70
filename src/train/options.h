// The options that every recipe takes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace sullae::train {

struct TrainOptions {
  // Data
  /// The data set; empty looks in the recipe's usual place.
  std::filesystem::path data;
  /// Of `data`: "auto" or a name of data::dataset_formats().
  std::string format = "auto";
  /// What the model is tested on; empty looks beside `data`, and else takes a tenth of it.
  std::filesystem::path test_data;
  std::string text_columns;
  std::string label_column;
  /// Threads of each rank that decode, and batches that they are ahead.
  int data_workers = 2;
  int prefetch = 4;
  /// Megabytes of records that are kept in memory.
  int cache_megabytes = 1024;
  /// 0 shuffles all samples; see data::OrderOptions.
  std::int64_t shuffle_buffer = 0;
  bool skip_damaged = false;

  // Course
  int epochs = 1;
  /// Samples a step over all ranks together; each rank takes an equal part.
  int batch_size = 64;
  /// Batch size and learning rate are those of one rank, and multiplied by their number.
  bool scale_with_ranks = false;
  /// Parts that a rank's batch is divided into, one after the other.
  int accumulation_steps = 1;
  /// Ends the training after this many steps, for trials; 0 trains all epochs.
  std::int64_t max_steps = 0;
  std::uint64_t seed = 1;

  // Optimizer
  /// A name of optimizers() in optimizers.h.
  std::string optimizer = "adam";
  double lr = 1e-3;
  double momentum = 0.9;
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double trust_coefficient = 0.001;
  double weight_decay = 0;
  /// Biases and norms are decayed too.
  bool decay_all = false;
  double label_smoothing = 0;
  /// Gradients are scaled down to this norm; 0 leaves them.
  double clip_norm = 0;

  // Learning rate
  /// A name of schedules() in schedule.h.
  std::string lr_schedule = "constant";
  double warmup_epochs = 0;
  /// Where the warm-up starts.
  double warmup_lr = 0;
  /// Where it ends.
  double end_lr = 0;
  /// The degree of "polynomial".
  double lr_power = 2;
  /// Of "step": epochs at which the rate is multiplied by lr_gamma, e.g. "30,60,80".
  std::string lr_steps;
  double lr_gamma = 0.1;

  // Precision
  /// "float32", "bfloat16" or "float16".
  std::string precision = "float32";
  /// "dynamic" or a number. bfloat16 has float32's range and takes 1.
  std::string loss_scale = "dynamic";
  /// Of gradients between ranks: "same" as they were computed in, or "float32".
  std::string allreduce_precision = "same";

  // Parallelism
  /// How gradients travel: "none", "float16", "bfloat16" or "topk:FRACTION".
  std::string compression = "none";
  bool overlap = true;
  bool sync_batch_norm = false;
  /// Replicas within each process.
  int scale_up = 1;
  /// "0" averages gradients at every step; a number of steps, or "epoch", averages weights.
  std::string local_sgd = "0";

  // Checkpoints
  /// Where checkpoints go after each epoch; empty writes none.
  std::filesystem::path checkpoint_dir;
  int keep_checkpoints = 2;
  /// Also after so many steps; 0 for epochs alone.
  std::int64_t checkpoint_steps = 0;
  bool resume = false;
  /// A model repository that gets the trained model as its next version; empty writes none.
  std::filesystem::path export_dir;
  /// The model's name there; empty takes the recipe's.
  std::string export_name;

  // Seeing
  /// A JSON file with the results; the same with plots goes beside it, as HTML.
  std::filesystem::path report;
  /// A folder for TensorBoard's event files.
  std::filesystem::path tensorboard_dir;
  /// A file in Prometheus' text format, for node_exporter's textfile collector.
  std::filesystem::path metrics_file;
  /// Steps between progress lines where the output is not a terminal.
  int log_interval = 200;

  /// Numbers that only this recipe knows, by flag name.
  std::map<std::string, double> extra;
  /// All of the above as TOML, for the checkpoint and the report.
  std::string configuration;
};

/// Makes the folder of `file`, and throws InputError, naming the flag, where nothing can be written there: better now than
/// after hours of training. Of nothing where `file` is empty.
void require_writable(const std::filesystem::path& file, const char* flag);
void require_writable_folder(const std::filesystem::path& folder, const char* flag);

/// `directory` where it exists, else empty: for the usual places of data sets.
std::filesystem::path where_present(const std::filesystem::path& directory);

/// With batch size and learning rate for `world_size` ranks. Throws InputError for values that cannot be,
/// naming the flag.
TrainOptions checked_options(TrainOptions options, int world_size);

}  // namespace sullae::train
