#include "train/loop.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sullae/torch.h"
#include "train/optimizers.h"

namespace sullae::train {

Loop::Loop(LoopParts parts, const TrainOptions& options, const World& world)
    : parts_(std::move(parts)),
      options_(options),
      world_(world),
      metrics_(parts_.tests ? parts_.objective.metrics() : std::vector<Metric>()),
      steps_per_epoch_(parts_.plan.steps()),
      schedule_(make_schedule(options, steps_per_epoch_)),
      saver_(options, parts_.name, parts_.describe, world) {
  state_.samples_a_step = options.batch_size;
  // Ranks drop out different cells.
  torch::manual_seed(options.seed * 1000003 + static_cast<std::uint64_t>(world.rank()) + 1);
}

Report Loop::run() {
  describe();
  const auto loaded = resume();
  parts_.model.to(local_device(world_));
  broadcast_parameters(parts_.model, 0, world_);
  start_stepper(loaded);
  parts_.model.train();
  if (state_.epoch > options_.epochs || ended()) {
    tell(&Observer::noted, fmt::format("nothing is left to train after step {}", state_.steps));
    test(options_.epochs);
  }
  while (state_.epoch <= options_.epochs && !ended()) train_epoch();
  saver_.wait();
  finish_report();
  return report_;
}

void Loop::describe() {
  report_.recipe = parts_.name;
  report_.data = parts_.data.data_description();
  report_.world_size = world_.size();
  report_.threads = torch::get_num_threads();
  report_.batch_size = options_.batch_size;
  report_.scale_up = options_.scale_up;
  report_.configuration = options_.configuration;
  report_.tested = parts_.tests;
  report_.metrics = metrics_;
  for (const auto& parameter : parts_.model.parameters()) report_.parameters += parameter.numel();
  tell(&Observer::started, report_);
}

// The weights are loaded before they are cast, and the optimizer's state when there is one: into one
// that is made for it here.
std::unique_ptr<torch::optim::Optimizer> Loop::resume() {
  if (!options_.resume) return nullptr;
  auto optimizer = make_optimizer(options_, parts_.model.named_parameters());
  const auto found = saver_.load(parts_.model, *optimizer);
  if (!found) {
    tell(&Observer::noted,
         fmt::format("no checkpoint in {} yet: starting anew", options_.checkpoint_dir.string()));
    return nullptr;
  }
  state_ = *found;
  adapt_to_batch_size();
  tell(&Observer::noted, state_.step == 0 ? fmt::format("resuming after epoch {}", state_.epoch - 1)
                                          : fmt::format("resuming after step {} of epoch {}",
                                                        state_.step, state_.epoch));
  return optimizer;
}

// A position within an epoch counts samples, of which a step may now have others.
void Loop::adapt_to_batch_size() {
  if (state_.samples_a_step == options_.batch_size) return;
  const auto before =
      std::exchange(state_.step, state_.step * state_.samples_a_step / options_.batch_size);
  // Its mean stays as it is.
  state_.loss_sum *=
      before == 0 ? 0 : static_cast<double>(state_.step) / static_cast<double>(before);
  state_.steps = (state_.epoch - 1) * steps_per_epoch_ + state_.step;
  state_.samples_a_step = options_.batch_size;
}

void Loop::start_stepper(const std::unique_ptr<torch::optim::Optimizer>& loaded) {
  stepper_.emplace(parts_.model, parts_.objective, options_, world_);
  if (loaded == nullptr) return;
  move_optimizer_state(*loaded, stepper_->optimizer());
  broadcast_optimizer_state(stepper_->optimizer(), 0, world_);
  if (!state_.scaler.empty()) stepper_->scaler().load_state(state_.scaler);
}

void Loop::train_epoch() {
  const auto epoch = static_cast<std::size_t>(state_.epoch);
  const auto stream =
      parts_.data.batches(Split::train, parts_.plan.of_epoch(epoch, state_.step), epoch);
  const double data_before = throughput_.waiting_for_data();
  while (state_.step < steps_per_epoch_ && !ended()) {
    step(*stream, data_before);
    if (options_.checkpoint_steps > 0 && state_.steps % options_.checkpoint_steps == 0 &&
        state_.step < steps_per_epoch_)
      report_.checkpoint = saver_.save(state_, parts_.model, *stepper_, /*best=*/false);
  }
  throughput_.pause();
  end_epoch();
}

void Loop::step(BatchStream& stream, double data_before) {
  std::vector<Batch> parts;
  const std::size_t samples = parts_.plan.samples_in(state_.step);
  for (std::size_t part = parts_.plan.parts_in(state_.step); part > 0; --part) {
    auto batch = stream.next();
    if (batch && batch->size() > 0) parts.push_back(std::move(*batch));
  }
  const double lr = schedule_(state_.steps);
  const StepResult result = stepper_->step(parts, lr, samples);
  state_.loss_sum += result.loss;
  ++state_.step;
  ++state_.steps;
  throughput_.step(samples, data_before + stream.seconds_waited(),
                   stepper_->seconds_waiting_for_ranks());
  tell(&Observer::stepped, moment(result.own_loss, lr));
}

// Or its part, where --max-steps ended it.
void Loop::end_epoch() {
  stepper_->join_weights();
  const auto steps = static_cast<double>(std::max<std::int64_t>(state_.step, 1));
  state_.train_loss = average_metrics({{"loss", state_.loss_sum / steps}}, 1, world_).at("loss");
  const auto epoch = state_.epoch;
  test(epoch);
  const bool best = is_best();
  report_.epochs = static_cast<int>(epoch);
  const double lr = schedule_(state_.steps - 1);
  report_.history.push_back(
      {.epoch = static_cast<int>(epoch),
       .lr = lr,
       .train_loss = state_.train_loss,
       .test_loss = state_.test_loss,
       .test_metrics = state_.test_metrics,
       .samples_per_second = throughput_.samples_per_second(),
       .seconds =
           std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count()});
  tell(&Observer::epoch_ended, moment(state_.train_loss, lr), report_.history.back());
  if (state_.step == steps_per_epoch_) {
    ++state_.epoch;
    state_.step = 0;
    state_.loss_sum = 0;
  }
  report_.checkpoint = saver_.save(state_, parts_.model, *stepper_, best);
}

void Loop::test(std::int64_t epoch) {
  if (!parts_.tests) return;
  auto result = evaluate({parts_.model, parts_.objective, parts_.data, stepper_->input_type()},
                         static_cast<std::size_t>(epoch), world_);
  state_.test_loss = result.loss;
  state_.test_metrics = std::move(result.metrics);
}

// Of the epochs so far, by the first metric, or by a loss.
bool Loop::is_best() {
  const bool by_loss = metrics_.empty();
  const std::string name = by_loss ? "loss" : metrics_.front().name;
  const bool higher = !by_loss && metrics_.front().higher_is_better;
  const double loss = parts_.tests ? state_.test_loss : state_.train_loss;
  const double value = by_loss ? loss : state_.test_metrics.at(name);
  if (!std::isfinite(value)) return false;
  const auto before = state_.best.find(name);
  const bool best = before == state_.best.end() || !std::isfinite(before->second) ||
                    (higher ? value > before->second : value < before->second);
  if (best) state_.best[name] = value;
  return best;
}

Moment Loop::moment(double loss, double lr) const {
  const auto left = (options_.epochs - state_.epoch + 1) * steps_per_epoch_ - state_.step;
  return {.epoch = static_cast<int>(state_.epoch),
          .epochs = options_.epochs,
          .step = state_.step,
          .steps_per_epoch = steps_per_epoch_,
          .total_steps = state_.steps,
          .loss = loss,
          .lr = lr,
          .samples_per_second = throughput_.samples_per_second(),
          .seconds_left = throughput_.seconds_a_step() * static_cast<double>(left),
          .waiting_for_data = throughput_.part_waiting_for_data(),
          .waiting_for_ranks = throughput_.part_waiting_for_ranks(),
          .loss_scale = stepper_->scaler().scale(),
          .skipped_steps = stepper_->scaler().skipped(),
          .damaged_records = static_cast<std::int64_t>(parts_.data.damaged()),
          .test_loss = state_.test_loss,
          .test_metrics = state_.test_metrics};
}

void Loop::finish_report() {
  report_.steps = state_.steps;
  report_.train_loss = state_.train_loss;
  report_.test_loss = state_.test_loss;
  report_.test_metrics = state_.test_metrics;
  report_.samples_per_second = throughput_.samples_per_second();
  report_.waiting_for_data = throughput_.part_waiting_for_data();
  report_.waiting_for_ranks = throughput_.part_waiting_for_ranks();
  report_.skipped_steps = stepper_->scaler().skipped();
  report_.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  auto damaged = static_cast<std::int64_t>(parts_.data.damaged());
  world_.allreduce(&damaged, &damaged, 1, DataType::int64);
  report_.damaged_records = damaged;
  tell(&Observer::ended, report_);
}

SerializedCheckpoint Loop::weights(CheckpointMetadata metadata) const {
  return serialize_checkpoint(
      parts_.model, nullptr,
      {.metadata = std::move(metadata), .weights = stepper_->master_weights()});
}

}  // namespace sullae::train
