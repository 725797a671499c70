#include "train/saver.h"

#include "sullae/torch.h"
#include "train/description.h"

namespace sullae::train {

Saver::Saver(const TrainOptions& options, std::string name,
             std::function<void(CheckpointMetadata&)> describe, const World& world)
    : options_(options), describe_(std::move(describe)), world_(world) {
  if (world.rank() == 0 && !options.checkpoint_dir.empty())
    checkpoints_.emplace(options.checkpoint_dir, std::move(name), options.keep_checkpoints);
}

std::optional<RunState> Saver::load(torch::nn::Module& model, torch::optim::Optimizer& optimizer) {
  std::optional<CheckpointMetadata> metadata;
  if (checkpoints_) metadata = checkpoints_->load_newest(model, optimizer);
  if (metadata && describe_) {
    CheckpointMetadata own;
    describe_(own);
    check_same_words(*metadata, own, "--resume");
  }
  std::int64_t found = metadata.has_value() ? 1 : 0;
  world_.broadcast(&found, 1, DataType::int64, 0);
  if (found == 0) return std::nullopt;
  return restore(metadata ? &*metadata : nullptr, world_);
}

std::string Saver::save(const RunState& state, const torch::nn::Module& model, Stepper& stepper,
                        bool best) {
  if (options_.checkpoint_dir.empty()) return {};
  stepper.update().join_weights();
  RunState saved = state;
  saved.scaler = stepper.scaler().state();
  auto metadata = to_metadata(saved, gather_generators(world_), options_.configuration);
  WholeState whole = stepper.update().gather();
  if (!checkpoints_) return {};
  if (describe_) describe_(metadata);
  return checkpoints_
      ->save(state.steps,
             serialize_checkpoint(
                 model, whole.optimizer,
                 {.metadata = std::move(metadata), .weights = std::move(whole.weights)}),
             best)
      .string();
}

void Saver::wait() {
  if (checkpoints_) checkpoints_->wait();
}

}  // namespace sullae::train
