#include "train/alike.h"

#include <fmt/format.h>

#include <string>

#include "torch/agreement.h"

namespace sullae::train {
namespace {

constexpr const char* kSameOptions = "the same options on every rank";

// A line each. Where files are, and what is shown, is each rank's own affair.
std::string text_of(const TrainOptions& o) {
  std::string text;
  const auto add = [&](const char* name, const auto& value) {
    text += fmt::format("{} is {}\n", name, value);
  };
  add("epochs", o.epochs);
  add("batch_size", o.batch_size);
  add("scale_with_ranks", o.scale_with_ranks);
  add("accumulation_steps", o.accumulation_steps);
  add("max_steps", o.max_steps);
  add("seed", o.seed);
  add("shuffle_buffer", o.shuffle_buffer);
  add("optimizer", o.optimizer);
  add("lr", o.lr);
  add("momentum", o.momentum);
  add("nesterov", o.nesterov);
  add("beta1", o.beta1);
  add("beta2", o.beta2);
  add("trust_coefficient", o.trust_coefficient);
  add("weight_decay", o.weight_decay);
  add("decay_all", o.decay_all);
  add("clip_norm", o.clip_norm);
  add("lr_schedule", o.lr_schedule);
  add("warmup_epochs", o.warmup_epochs);
  add("warmup_lr", o.warmup_lr);
  add("end_lr", o.end_lr);
  add("lr_power", o.lr_power);
  add("lr_steps", o.lr_steps);
  add("lr_gamma", o.lr_gamma);
  add("precision", o.precision);
  add("loss_scale", o.loss_scale);
  add("allreduce_precision", o.allreduce_precision);
  add("compression", o.compression);
  add("sync_batch_norm", o.sync_batch_norm);
  add("shard", o.shard);
  add("mesh", o.mesh);
  add("stages_per_rank", o.stages_per_rank);
  add("ps_mode", o.ps_mode);
  add("scale_up", o.scale_up);
  add("local_sgd", o.local_sgd);
  add("checkpoint_dir", o.checkpoint_dir.empty() ? "none" : "one");
  add("checkpoint_steps", o.checkpoint_steps);
  add("resume", o.resume);
  add("end_on_signals", o.end_on_signals);
  return text;
}

void check_lines(const World& world, const std::string& mine, const char* remedy) {
  if (world.size() == 1) return;
  const auto found = first_difference(world, mine);
  if (!found) return;
  throw MismatchError(
      fmt::format("ranks disagree: {} on rank 0, and {} on rank {}: expected {}", found->on_rank_0,
                  found->on_rank.substr(found->on_rank.find(" is ") + 4), found->rank, remedy));
}

}  // namespace

void check_same_options(const TrainOptions& options, const World& world) {
  check_lines(world, text_of(options), kSameOptions);
}

void check_same_options(const RecipeOptions& options, const World& world) {
  std::string text =
      text_of(options) + fmt::format("label_smoothing is {}\n", options.label_smoothing);
  for (const auto& [flag, value] : options.extra) text += fmt::format("{} is {}\n", flag, value);
  check_lines(world, text, kSameOptions);
}

void check_same_samples(std::size_t train, std::size_t test, const World& world) {
  check_lines(
      world,
      fmt::format("the number of samples to train on is {}\nthe number of samples to test on "
                  "is {}\n",
                  train, test),
      "all of them on every rank: the training divides them itself");
}

}  // namespace sullae::train
