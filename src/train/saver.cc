#include "train/saver.h"

#include "sullae/torch.h"
#include "torch/agreement.h"
#include "train/configuration.h"
#include "train/description.h"
#include "train/device.h"
#include "train/loss_scale.h"
#include "train/trained_on.h"

namespace sullae::train {

Saver::Saver(const TrainOptions& options, std::string name,
             std::function<void(CheckpointMetadata&)> describe, const Ranks& ranks,
             Contested contested)
    : options_(options), describe_(std::move(describe)), ranks_(ranks) {
  if (options.checkpoint_dir.empty()) return;
  on_root(ranks_.all, 0, [&] {
    checkpoints_.emplace(options.checkpoint_dir, std::move(name), options.keep_checkpoints,
                         contested);
  });
}

void Saver::expect_new_run() {
  on_root(ranks_.all, 0, [&] {
    if (checkpoints_) checkpoints_->expect_none();
  });
}

std::optional<RunState> Saver::load(torch::nn::Module& model, LoadedCheckpoint& loaded) {
  std::optional<Checkpoints::Found> found;
  on_root(ranks_.all, 0, [&] {
    if (!checkpoints_) return;
    found = checkpoints_->newest([&](const std::filesystem::path& file) {
      return loaded.optimizer ? load_checkpoint(file, model, loaded.optimizer.get())
                              : read_checkpoint_metadata(file);
    });
    if (!found || !describe_) return;
    CheckpointMetadata own;
    describe_(own);
    check_same_model(found->metadata, own, "--resume");
    loaded.changed_settings =
        changed_settings(configuration_in(found->metadata), options_.configuration);
  });
  std::int64_t is_found = found.has_value() ? 1 : 0;
  ranks_.all.broadcast(&is_found, 1, DataType::int64, 0);
  if (is_found == 0) return std::nullopt;
  if (found) loaded.file = found->file;
  return restore(found ? &found->metadata : nullptr, device_of(model), ranks_);
}

std::string Saver::save(const RunState& state, const torch::nn::Module& model, Stepper& stepper,
                        bool best) {
  if (options_.checkpoint_dir.empty()) return {};
  stepper.update().join_weights();
  RunState saved = state;
  // One that is set by hand is this run's, whatever a run after it says.
  saved.scaler =
      parse_loss_scale(options_).dynamic ? stepper.scaler().state() : std::vector<double>();
  // Ranks that go on have one state, whatever their number.
  ranks_.all.allreduce(&saved.loss_sum, &saved.loss_sum, 1, DataType::float64);
  saved.loss_sum /= ranks_.all.size();
  auto metadata =
      to_metadata(saved, gather_generators(device_of(model), ranks_), options_.configuration);
  std::filesystem::path file;
  if (checkpoints_) {
    if (describe_) describe_(metadata);
    file = checkpoints_->file_of(state.steps);
  }
  auto checkpoint = stepper.update().save(file, std::move(metadata));
  if (checkpoint) {
    checkpoints_->save(state.steps, std::move(*checkpoint), best);
  } else if (checkpoints_) {
    checkpoints_->saved(file, best);
  }
  return file.string();
}

void Saver::wait() {
  if (checkpoints_) checkpoints_->wait();
}

}  // namespace sullae::train
