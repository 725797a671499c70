#include "train/options.h"

#include <fmt/format.h>
#include <torch/cuda.h>

#include "base/counted.h"
#include "base/file.h"
#include "repository/publish.h"
#include "storage/storage.h"
#include "sullae/error.h"
#include "train/local_sgd.h"
#include "train/loss_scale.h"
#include "train/ranks.h"
#include "train/schedule.h"
#include "train/update/weight_update.h"

namespace sullae::train {
namespace {

void require(bool holds, const std::string& message) {
  if (!holds) throw InputError(message);
}

void require_at_least(long long value, long long least, const char* flag) {
  require(value >= least, fmt::format("--{} {}: expected {} or more", flag, value, least));
}

void require_not_negative(double value, const char* flag) {
  require(value >= 0, fmt::format("--{} {}: expected 0 or more", flag, value));
}

void require_one_of(const std::string& value, std::initializer_list<const char*> names,
                    const char* flag) {
  for (const char* name : names) {
    if (value == name) return;
  }
  throw InputError(fmt::format("--{} {}: expected one of {}", flag, value, fmt::join(names, ", ")));
}

// What goes with a part of the optimizer alone.
void check_shard(const TrainOptions& options) {
  const std::string shard = "--shard " + options.shard + ": ";
  require(!parse_local_sgd(options.local_sgd).enabled(),
          shard + "gradients are divided among ranks, and with --local-sgd not averaged");
  require(options.compression == "none", shard + "does not go with --compression");
  require(options.allreduce_precision == "same",
          shard + "does not go with --allreduce-precision " + options.allreduce_precision +
              ": gradients are reduced in the type that they have");
  require(options.scale_up == 1, shard + "does not go with --scale-up");
  require(options.optimizer != "lars" && options.optimizer != "lamb",
          shard + "--optimizer " + options.optimizer +
              " needs norms of whole tensors, and each rank has a part of them");
  require(options.shard != "parameters" || !options.channels_last,
          shard + "does not go with --channels-last");
  require(options.shard != "parameters" || options.overlap,
          shard + "does not go with --no-overlap: gradients go when their unit's are there");
}

// What goes with models that are whole on no rank.
void check_mesh(const TrainOptions& options, int ranks) {
  mesh_of(options, ranks);
  const std::string mesh = "--mesh " + options.mesh + ": ";
  if (divides_among_some(options)) {
    require(options.shard == "parameters",
            mesh + "shard is of --shard parameters: expected that, or another dimension");
  }
  if (!divides_model(options)) return;
  require(!has_parameter_servers(), mesh + "does not go with parameter servers");
  require(options.shard != "parameters" || !has_stages(options),
          mesh + "pp does not go with --shard parameters: expected --shard gradients, or tp alone");
  require(!parse_local_sgd(options.local_sgd).enabled(), mesh + "does not go with --local-sgd");
  require(options.scale_up == 1, mesh + "does not go with --scale-up");
  require(!options.sync_batch_norm || !has_stages(options),
          mesh + "pp has norms on some ranks, and --sync-batch-norm waits for all of them");
  require(
      !has_tensor_parts(options) || options.compression == "none" ||
          options.compression == "float16" || options.compression == "bfloat16",
      mesh + "tp does not go with --compression " + options.compression +
          ", which chooses by all that a rank has, and ranks have other parts: expected float16 "
          "or bfloat16");
  require(!options.channels_last, mesh + "does not go with --channels-last");
  require(options.allreduce_precision == "same",
          mesh + "does not go with --allreduce-precision " + options.allreduce_precision);
  require(options.optimizer != "lars" && options.optimizer != "lamb",
          mesh + "--optimizer " + options.optimizer +
              " needs norms of whole tensors, and a rank has a part of them");
}

// Of which stores have nothing.
void require_here(const std::filesystem::path& path, const char* flag) {
  require(!storage::is_remote(path),
          fmt::format("--{} {}: is in a store: expected a folder of this host, or one that hosts "
                      "share",
                      flag, path.string()));
}

void check_counts(const TrainOptions& options) {
  require_at_least(options.epochs, 1, "epochs");
  require_at_least(options.batch_size, 1, "batch-size");
  require_at_least(options.accumulation_steps, 1, "accumulation-steps");
  require_at_least(options.scale_up, 1, "scale-up");
  require_at_least(options.stages_per_rank, 1, "stages-per-rank");
  require_at_least(options.keep_checkpoints, 1, "keep-checkpoints");
  require_at_least(options.checkpoint_steps, 0, "checkpoint-steps");
  require_at_least(options.shuffle_buffer, 0, "shuffle-buffer");
  require_at_least(options.max_steps, 0, "max-steps");
  require_at_least(options.log_interval, 1, "log-interval");
}

void check_rates(const TrainOptions& options) {
  require_not_negative(options.momentum, "momentum");
  require(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1,
          fmt::format("--beta1 {}, --beta2 {}: expected 0 or more, and less than 1", options.beta1,
                      options.beta2));
  require_not_negative(options.weight_decay, "weight-decay");
  require_not_negative(options.clip_norm, "clip-norm");
  require_not_negative(options.warmup_epochs, "warmup-epochs");
  require_not_negative(options.warmup_lr, "warmup-lr");
  require_not_negative(options.end_lr, "end-lr");
  require(options.lr_power > 0,
          fmt::format("--lr-power {}: expected more than 0", options.lr_power));
  require(options.lr_gamma > 0,
          fmt::format("--lr-gamma {}: expected more than 0", options.lr_gamma));
  require(options.trust_coefficient > 0,
          fmt::format("--trust-coefficient {}: expected more than 0", options.trust_coefficient));
  require(options.lr > 0, fmt::format("--lr {}: expected more than 0", options.lr));
  require(!options.nesterov || options.momentum > 0, "--nesterov: needs a --momentum above 0");
}

void check_precision(const TrainOptions& options) {
  require_one_of(options.precision, {"float32", "bfloat16", "float16"}, "precision");
  require_one_of(options.allreduce_precision, {"same", "float32"}, "allreduce-precision");
  parse_loss_scale(options);
  require(options.compression == "none" || options.precision == "float32" ||
              options.allreduce_precision == "float32",
          fmt::format("--compression {}: gradients in {} travel as they are: expected --precision "
                      "float32, or --allreduce-precision float32",
                      options.compression, options.precision));
  require(!options.compression.starts_with("topk") || options.precision != "float16",
          fmt::format("--compression {}: does not go with --precision float16, whose gradients "
                      "overflow now and then: what is left for later steps would keep that",
                      options.compression));
  require(
      options.precision != "float16" || (options.device != "cpu" && torch::cuda::is_available()),
      "--precision float16: libtorch does not compute in float16 on the CPU: take bfloat16");
}

void check_batch_size(const TrainOptions& options, int ranks) {
  const int batch_size = scaled(options, ranks).batch_size;
  const double parts = static_cast<double>(ranks) * options.accumulation_steps * options.scale_up;
  require(batch_size >= parts,
          fmt::format("--batch-size {}: {}, --accumulation-steps {} and --scale-up {} divide it: "
                      "expected at least {:.0f}",
                      batch_size, counted(ranks, "data-parallel rank"), options.accumulation_steps,
                      options.scale_up, parts));
}

void check_folders(const TrainOptions& options) {
  require(!options.resume || !options.checkpoint_dir.empty(),
          "--resume: needs --checkpoint-dir, where the checkpoints are");
  require(options.checkpoint_steps == 0 || !options.checkpoint_dir.empty(),
          "--checkpoint-steps: needs --checkpoint-dir, where checkpoints go");
  require_here(options.checkpoint_dir, "checkpoint-dir");
  require_writable(options.report, "report");
  require_writable(options.metrics_file, "metrics-file");
  require_writable_folder(options.run_dir, "run-dir");
}

}  // namespace

void require_writable(const std::filesystem::path& file, const char* flag) {
  if (file.empty()) return;
  require_writable_folder(file.has_parent_path() ? file.parent_path() : ".", flag);
  require(!std::filesystem::is_directory(file),
          fmt::format("--{} {}: is a folder, expected a file", flag, file.string()));
}

void require_writable_folder(const std::filesystem::path& folder, const char* flag) {
  if (folder.empty()) return;
  require_here(folder, flag);
  const auto error = make_writable(folder);
  require(!error, fmt::format("--{}: nothing can be written to {}: {}", flag, folder.string(),
                              error.message()));
}

std::filesystem::path where_present(const std::filesystem::path& directory) {
  return std::filesystem::is_directory(directory) ? directory : std::filesystem::path();
}

TrainOptions scaled(const TrainOptions& options, int ranks) {
  TrainOptions result = options;
  if (!options.scale_with_ranks) return result;
  result.batch_size *= ranks;
  result.lr *= ranks;
  return result;
}

void check_options(const TrainOptions& options, int world_size) {
  check_counts(options);
  check_rates(options);
  require_one_of(options.device, {"auto", "cpu", "cuda"}, "device");
  check_precision(options);
  const auto local = parse_local_sgd(options.local_sgd);
  require(!local.enabled() || options.compression == "none",
          "--local-sgd: weights are averaged, there are no gradients for --compression");
  require(
      options.scale_up == 1 || !options.sync_batch_norm,
      "--sync-batch-norm: does not go with --scale-up: replicas of a process would wait for each "
      "other's ranks");
  require_one_of(options.shard, {"none", "optimizer", "gradients", "parameters"}, "shard");
  if (options.shard != "none") check_shard(options);
  require_one_of(options.ps_mode, {"ps", "ps-sparse"}, "ps-mode");
  if (!options.mesh.empty()) check_mesh(options, world_size);
  require(options.stages_per_rank == 1 || has_stages(options),
          fmt::format("--stages-per-rank {}: needs --mesh with pp of 2 or more",
                      options.stages_per_rank));
  check_batch_size(options, data_ranks(options, world_size));
  make_schedule(options, 1);
  check_folders(options);
}

void check_elastic(const TrainOptions& options) {
  require(!has_parameter_servers(),
          "parameter servers know workers by their ranks, which change in an elastic job "
          "(--min-np, --max-np)");
  require(!parse_local_sgd(options.local_sgd).enabled(),
          "--local-sgd: ranks have weights of their own between averages, which an elastic job "
          "(--min-np, --max-np) would lose with a rank");
  require(options.shard == "none",
          "--shard: an elastic job (--min-np, --max-np) would lose a rank's part of the optimizer "
          "with it");
  require(!divides_model(options),
          "--mesh: an elastic job (--min-np, --max-np) would lose parts of the model with a rank");
  require(options.mesh.empty(),
          fmt::format("--mesh {}: says how many ranks there are, which changes in an elastic job "
                      "(--min-np, --max-np)",
                      options.mesh));
}

void check_options(const RecipeOptions& options, int world_size) {
  require_at_least(options.data_workers, 0, "data-workers");
  require_at_least(options.prefetch, 1, "prefetch");
  require_at_least(options.cache_megabytes, 0, "cache-megabytes");
  require(options.label_smoothing >= 0 && options.label_smoothing < 1,
          fmt::format("--label-smoothing {}: expected 0 or more, and less than 1",
                      options.label_smoothing));
  require(options.export_name.empty() || !options.export_dir.empty(),
          "--export-name: needs --export, where the model goes");
  if (!storage::is_remote(options.export_dir))
    require_writable_folder(options.export_dir, "export");
  if (!options.export_name.empty()) repository::check_model_name(options.export_name);
  require(options.group.empty() || !options.source.empty(), "--group: needs --source");
  require(options.group.empty() || options.max_steps == 0,
          "--group: does not go with --max-steps: what training has not come to would be marked as "
          "read");
  check_options(static_cast<const TrainOptions&>(options), world_size);
}

}  // namespace sullae::train
