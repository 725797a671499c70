// What the loop does where parameter servers have what was trained: it goes on with the ranks that
// are left.
#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "sullae/error.h"
#include "torch/broadcast_text.h"
#include "train/loop.h"

namespace sullae::train {

void Loop::train_with_those_left() {
  for (bool lacks_one = false;;) {
    try {
      if (lacks_one) go_on_with_those_left();
      return train();
    } catch (const PeerError&) {
      if (!survivors_ || !survivors_->wait_for_end()) throw;
      lacks_one = true;
    }
  }
}

void Loop::go_on_with_those_left() {
  const auto since = std::chrono::steady_clock::now();
  stepper_->update().rest();  // some are still in their step
  const World world = survivors_->next();
  meet(world);
  enter(world);
  stepper_->enter(ranks_->data);
  stepper_->update().join_weights();
  note_change(
      {.step = state_.steps,
       .ranks = world.size(),
       .pause = std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count(),
       .reason = survivors_->reason()});
}

// Ranks that step by themselves are at different steps of an epoch, and how far the one was that
// has ended nobody knows: they go on from where they are on average. Some samples of the steps
// between come once more, and as many never. What else there is to know rank 0 says, who has
// written it.
void Loop::meet(const World& world) {
  const std::array<std::int64_t, 3> own{state_.epoch, state_.step, state_.steps};
  std::vector<std::array<std::int64_t, 3>> all(static_cast<std::size_t>(world.size()));
  world.allgather(own.data(), all.data()->data(), own.size(), DataType::int64);
  std::int64_t sum = 0;
  std::int64_t most = 0;  // files, and --max-steps, go by it
  bool is_one_epoch = true;
  for (const auto& [epoch, step, steps] : all) {
    sum += step;
    most = std::max(most, steps);
    is_one_epoch = is_one_epoch && epoch == own[0];
  }
  auto unsaved = static_cast<std::int64_t>(unsaved_);
  world.broadcast(&unsaved, 1, DataType::int64, 0);
  unsaved_ = static_cast<Unsaved>(unsaved);
  state_.seconds = seconds();
  RunState agreed =
      run_state_of(broadcast_text(world.rank() == 0 ? to_text(state_) : "", 0, world));
  agreed.steps = most;
  if (is_one_epoch) {  // else all had ended one
    agreed.step = state_.step;
    agreed.samples = state_.samples;
    agreed.loss_sum = state_.loss_sum;
  }
  go_on_from(std::move(agreed));
  if (is_one_epoch) move_to(sum / world.size());
}

// The loss is that of the samples which this rank has trained on.
void Loop::move_to(std::int64_t step) {
  const double loss =
      state_.samples == 0 ? own_loss_ : state_.loss_sum / static_cast<double>(state_.samples);
  while (state_.step < step)
    state_.samples += static_cast<std::int64_t>(plan_->samples_in(state_.step++));
  while (state_.step > step)
    state_.samples -= static_cast<std::int64_t>(plan_->samples_in(--state_.step));
  state_.loss_sum = loss * static_cast<double>(state_.samples);
}

}  // namespace sullae::train
