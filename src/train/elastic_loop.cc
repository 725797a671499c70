// What the loop does in an elastic job: one world after the other.
#include <chrono>
#include <utility>

#include "train/device.h"
#include "train/division.h"
#include "train/loop.h"
#include "train/monitor/report.h"

namespace sullae::train {

elastic::Outcome Loop::run_elastic() {
  check_elastic(options_);
  if (is_in_parts(parts_.model))
    throw InputError(
        "the model is in parts, or in stages: an elastic job (--min-np, --max-np) would lose some "
        "of "
        "it with a rank");
  // Made before there is a world, so that the others need not wait for it.
  const auto device = device_of(options_, elastic::local_device());
  parts_.model.to(device);
  make_stepper(device);
  elastic::State kept(parts_.model, stepper_->update().optimizer());
  bool begun = false;
  track(kept);
  kept.track("begun", begun);
  elastic_ = &kept;
  auto outcome = elastic::Outcome::left;
  tell_failure([&] {
    outcome = elastic::run(kept, [&](const World& world) {
      enter(world);
      if (begun) {
        stepper_->enter(ranks_->data);
        const elastic::Change& change = kept.changes().back();
        note_change({.step = state_.steps,
                     .ranks = change.ranks,
                     .pause = std::chrono::duration<double>(change.pause).count(),
                     .reason = change.reason});
      } else {
        begin(device);
        begun = true;
        kept.step_done();  // what it has begun with is everybody's
      }
      train();
    });
  });
  elastic_ = nullptr;
  return outcome;
}

// What a rank that comes is given, besides weights and the optimizer's state.
void Loop::track(elastic::State& kept) {
  const auto save = [this] {
    RunState now = state_;
    now.scaler = stepper_->scaler().state();
    now.seconds = seconds();
    return to_text(now);
  };
  kept.track("run", save, [this](const std::string& text) {
    go_on_from(run_state_of(text));
    if (!state_.scaler.empty()) stepper_->scaler().load_state(state_.scaler);
  });
  kept.track(
      "world changes", [this] { return to_text(report_.world_changes); },
      [this](const std::string& text) { report_.world_changes = world_changes_of(text); });
  kept.track(
      "unsaved", [this] { return std::to_string(static_cast<int>(unsaved_)); },
      [this](const std::string& text) { unsaved_ = static_cast<Unsaved>(std::stoi(text)); });
  kept.track_tensors("master weights", [this] {
    std::vector<torch::Tensor> masters;
    for (const auto& [name, weight] : stepper_->update().master_weights())
      masters.push_back(weight);
    return masters;
  });
}

void Loop::note_change(WorldChange change) {
  if (report_.recipe.empty() || is_first_of_monitors_) describe();
  is_first_of_monitors_ = false;
  report_.world_size = change.ranks;
  report_.batch_size = options_.batch_size;
  report_.world_changes.push_back(std::move(change));
  throughput_.pause();
  throughput_.begin_anew();
  tell(&Observer::world_changed, report_.world_changes.back());
}

void Loop::step_done() {
  if (elastic_ != nullptr) leave_in_order(&elastic::State::step_done);
}

// Where no rank stays, as when a batch system takes all nodes, the next attempt goes on from here.
// Who goes alone has written what it writes: a process that has left is not waited for.
void Loop::leave_in_order(void (elastic::State::*ask)()) {
  try {
    (elastic_->*ask)();
  } catch (const elastic::Interrupted& interrupted) {
    if (interrupted.everybody_goes() && !options_.checkpoint_dir.empty())
      report_.checkpoint = save_checkpoint(unsaved_ == Unsaved::best);
    if (interrupted.this_rank_goes()) saver_->wait();
    throw;
  }
}

}  // namespace sullae::train
