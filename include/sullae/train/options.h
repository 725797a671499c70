// How a model is trained. Each but the last two is a flag of `sullae train` too, with dashes:
// batch_size is --batch-size; what is true unless it is said otherwise is one with "no": overlap is
// --no-overlap.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace sullae::train {

struct TrainOptions {
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
  /// 0 shuffles all samples; see data::OrderOptions.
  std::int64_t shuffle_buffer = 0;

  // Optimizer
  /// "adam", "adamw", "sgd", "lars" or "lamb".
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
  /// Gradients are scaled down to this norm; 0 leaves them.
  double clip_norm = 0;

  // Learning rate
  /// "constant", "linear", "cosine", "polynomial" or "step".
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

  /// "cpu", "cuda" (each rank has a GPU, or a part of one, by its place on its host) or "auto": a
  /// GPU where there is one and this way of training can use it.
  std::string device = "auto";

  // Precision
  /// "float32", "bfloat16" or "float16".
  std::string precision = "float32";
  /// "dynamic" or a number. bfloat16 has float32's range and takes 1.
  std::string loss_scale = "dynamic";
  /// Of gradients between ranks: "same" as they were computed in, or "float32".
  std::string allreduce_precision = "same";
  /// Weights of convolutions lie in memory as [out, rows, columns, in], and so do images between
  /// them: cuDNN is faster with that, in 16 bits above all.
  bool channels_last = false;

  // Parallelism
  /// How gradients travel: "none", "float16", "bfloat16" or "topk:FRACTION".
  std::string compression = "none";
  bool overlap = true;
  /// Norms over the samples of all ranks: of `sullae train`, in its models. fit() sees by itself
  /// whether a model has SyncBatchNorm2d, and refuses this where it has none.
  bool sync_batch_norm = false;
  /// Each rank has the whole optimizer ("none"), a part of its state ("optimizer"), of that and of
  /// the gradients
  /// ("gradients"), or of all that and of the parameters ("parameters": of a model that HasUnits).
  /// See ShardedOptimizer.
  std::string shard = "none";
  /// Ranks as a grid, "dp=2,pp=2,tp=4": a rank has the layers of one of pp stages (of a model that
  /// HasStages), of each layer one of tp parts (of a model that has TensorParallelLayer), and dp
  /// ranks have the same part, and other samples; of units ("dp=2,shard=4") shard ranks have each
  /// parameter together, dp times. What is not named is 1, but for dp, which is what is left.
  /// Empty: all have other samples, and the whole model.
  std::string mesh;
  /// With pp: stages that each rank has, of a model made for so many.
  int stages_per_rank = 1;
  /// What is on parameter servers, where the job has some: everything ("ps"), or the rows of tables
  /// with sparse gradients, and dense gradients are averaged among ranks ("ps-sparse").
  std::string ps_mode = "ps";
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

  // Seeing
  /// A folder for what this run is, its curves and its end, which `sullae dashboard` shows; see
  /// sullae/run_log.h.
  std::filesystem::path run_dir;
  /// A JSON file with the results; the same with plots goes beside it, as HTML.
  std::filesystem::path report;
  /// A folder for TensorBoard's event files.
  std::filesystem::path tensorboard_dir;
  /// A file in Prometheus' text format, for node_exporter's textfile collector.
  std::filesystem::path metrics_file;
  /// Steps between points of curves, and between progress lines where the output is not a terminal.
  int log_interval = 200;

  /// SIGINT and SIGTERM end the training after the step, with a checkpoint where there is a
  /// checkpoint_dir, on all ranks once one has got the signal; see Stopped. Another one ends the
  /// process at once. Of `sullae train` always true; of one training of a process at a time.
  /// Without effect in elastic jobs, which have ways of their own, and where ranks do not step
  /// together: local_sgd and parameter servers.
  bool end_on_signals = false;

  /// What the run was started with, for the checkpoint and the report; TOML.
  std::string configuration;
};

}  // namespace sullae::train
