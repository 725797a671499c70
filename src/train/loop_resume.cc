// How a run takes up what an earlier one, or world, has left.
#include <fmt/format.h>
#include <torch/torch.h>

#include <chrono>
#include <optional>
#include <utility>

#include "sullae/error.h"
#include "train/checkpoints.h"
#include "train/loop.h"
#include "train/loss_scale.h"
#include "train/optimizers.h"
#include "train/update/weight_update.h"

namespace sullae::train {
namespace {

// In the middle of an epoch its order, and what is left of it, are those of as many samples.
void check_same_epoch(const RunState& state, std::int64_t size) {
  const bool differs = state.of_epoch == 0 ? state.samples > size : state.of_epoch != size;
  if (state.samples == 0 || !differs) return;
  throw InputError(fmt::format(
      "--resume: the checkpoint is behind {} samples of an epoch{}, and the training data have {}: "
      "expected the data that it was trained on",
      state.samples, state.of_epoch == 0 ? "" : fmt::format(" of {}", state.of_epoch), size));
}

}  // namespace

// The model's weights, and what is left for when there is a stepper, where there is a checkpoint.
std::optional<LoadedCheckpoint> Loop::resume() {
  if (!options_.resume) {
    saver_->expect_new_run();
    return std::nullopt;
  }
  LoadedCheckpoint loaded;
  if (is_gathered(parts_.model, options_))
    loaded.optimizer = make_optimizer(options_, parts_.model.named_parameters());
  const auto found = saver_->load(parts_.model, loaded);
  if (!found) {
    const auto others = checkpoints_in(options_.checkpoint_dir);
    tell(&Observer::noted,
         fmt::format(
             "no checkpoint {}in {} yet{}: starting anew",
             others.empty() ? "" : fmt::format("of {} ", parts_.name),
             options_.checkpoint_dir.string(),
             others.empty() ? "" : fmt::format(" beside {}", others.front().filename().string())));
    return std::nullopt;
  }
  check_same_epoch(*found, static_cast<std::int64_t>(plan_->size()));
  go_on_from(*found);
  make_plan();
  tell(&Observer::noted, state_.step == 0 ? fmt::format("resuming after epoch {}", state_.epoch - 1)
                                          : fmt::format("resuming after step {} of epoch {}",
                                                        state_.step, state_.epoch));
  if (!loaded.changed_settings.empty())
    tell(&Observer::noted, fmt::format("other settings than before: {}", loaded.changed_settings));
  return loaded;
}

void Loop::go_on_from(RunState state) {
  state_ = std::move(state);
  seconds_before_ = 0;
  seconds_before_ = state_.seconds - seconds();
}

double Loop::seconds() const {
  return seconds_before_ +
         std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

// Of the epoch, as if all of its steps had had the samples that they have now.
void Loop::adapt_to_batch_size() {
  if (state_.samples_a_step == options_.batch_size) return;
  state_.step = state_.samples / options_.batch_size;
  state_.samples_a_step = options_.batch_size;
}

// The model's as they were before they were cast, where they were.
void Loop::put_master_weights_back() {
  const auto masters = stepper_->update().master_weights();
  if (masters.empty()) return;
  parts_.model.to(torch::kFloat32);
  for (auto& item : parts_.model.named_parameters())
    item.value().set_data(masters.at(item.key()).detach().clone());
}

void Loop::take_up(const LoadedCheckpoint& loaded) {
  stepper_->update().load(loaded);
  if (!state_.scaler.empty() && parse_loss_scale(options_).dynamic)
    stepper_->scaler().load_state(state_.scaler);
}

}  // namespace sullae::train
