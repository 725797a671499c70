#include "train/loop.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "sullae/torch.h"
#include "sullae/train/fit.h"
#include "train/device.h"
#include "train/division.h"

namespace sullae::train {

Loop::Loop(LoopParts parts, const TrainOptions& options)
    : parts_(std::move(parts)),
      given_(options),
      options_(options),
      metrics_(parts_.tests ? parts_.objective.metrics() : std::vector<Metric>()) {}

Report Loop::run(const World& world) {
  tell_failure([&] {
    enter(world);
    begin(device_of(options_, local_device(world), parts_.model));
    const bool together = world.size() == 1 || stepper_->update().averages_gradients();
    if (options_.end_on_signals && together && !has_parameter_servers()) end_request_.emplace();
    if (stepper_->update().outlives_ranks()) survivors_ = Survivors::of_this_job(world);
    train_with_those_left();
    end_request_.reset();
    survivors_.reset();
  });
  return report_;
}

// Each world has its own parts of the steps.
void Loop::enter(const World& world) {
  const bool is_first = !ranks_.has_value();
  ranks_.emplace(given_, world);
  options_ = scaled(given_, ranks_->data.size());
  if (state_.samples_a_step == 0) state_.samples_a_step = options_.batch_size;
  make_plan();
  saver_.emplace(options_, parts_.name, parts_.describe, *ranks_,
                 is_first ? Contested::wait : Contested::go_on);
  // Ranks drop out different cells, where they have different samples, or layers.
  if (is_first)
    torch::manual_seed(options_.seed * 1000003 +
                       static_cast<std::uint64_t>(ranks_->drawing_number()) + 1);
  if (parts_.monitors && monitors_.empty()) {
    monitors_ = parts_.monitors(world.rank());
    is_first_of_monitors_ = !monitors_.empty();
  }
}

// From where the epoch is.
void Loop::make_plan() {
  plan_ = parts_.plan(ranks_->data, options_, {});
  state_.of_epoch = static_cast<std::int64_t>(plan_->size());
  adapt_to_batch_size();
  steps_of_whole_epoch_ = plan_->steps();
  schedule_ = make_schedule(options_, steps_of_whole_epoch_);
  begun_ = {.step = state_.step, .samples = state_.samples};
  if (begun_.samples > 0) plan_ = parts_.plan(ranks_->data, options_, begun_);
  steps_per_epoch_ = plan_->steps();
}

// The weights are loaded before they are cast, and the optimizer's state when there is one.
void Loop::begin(torch::Device device) {
  if (stepper_) put_master_weights_back();
  check_division(parts_.model, options_, *ranks_);
  describe();
  is_first_of_monitors_ = false;
  parts_.model.to(device);
  tell_of_settings();
  const auto loaded = resume();
  start_equal(parts_.model, *ranks_);
  make_stepper(device);
  if (elastic_ != nullptr) elastic_->use(stepper_->update().optimizer());
  stepper_->enter(ranks_->data);
  if (loaded) take_up(*loaded);
}

void Loop::train() {
  save();
  parts_.model.train();
  // The world before has ended behind the last step.
  const bool is_to_end_epoch =
      !report_.world_changes.empty() && ended() && state_.step > 0 &&
      state_.epoch <= options_.epochs &&
      (state_.history.empty() || state_.history.back().epoch < state_.epoch);
  if (is_to_end_epoch) {
    end_epoch();
  } else if (state_.epoch > options_.epochs || ended()) {
    tell(&Observer::noted, fmt::format("nothing is left to train after step {}", state_.steps));
    test(options_.epochs);
  }
  while (state_.epoch <= options_.epochs && !ended()) train_epoch();
  saver_->wait();
  saver_.reset();  // others may have the folder
  finish_report();
}

void Loop::make_stepper(torch::Device device) {
  stepper_.emplace(parts_.model, parts_.objective, options_, device, ranks_ ? &*ranks_ : nullptr);
}

void Loop::train_epoch() {
  // A part of it that --max-steps ended may be there: this one has it, too.
  if (!state_.history.empty() && state_.history.back().epoch == state_.epoch)
    state_.history.pop_back();
  const auto epoch = static_cast<std::size_t>(state_.epoch);
  const auto stream = parts_.data.batches(Split::train, plan_->of_epoch(epoch, state_.step), epoch);
  const double data_before = throughput_.waiting_for_data();
  throughput_.begin_epoch();
  while (state_.step < steps_per_epoch_ && !ended()) {
    step(*stream, data_before);
    if (options_.checkpoint_steps > 0 && state_.steps % options_.checkpoint_steps == 0 &&
        state_.step < steps_per_epoch_)
      report_.checkpoint = save_checkpoint(/*best=*/false);
  }
  throughput_.pause();
  end_epoch();
}

void Loop::step(BatchStream& stream, double data_before) {
  if (survivors_) survivors_->expect_all_there();
  std::vector<Batch> parts;
  const std::size_t samples = plan_->samples_in(state_.step);
  for (std::size_t part = plan_->parts_in(state_.step); part > 0; --part) {
    auto batch = stream.next();
    if (batch && batch->size() > 0) parts.push_back(std::move(*batch));
  }
  const double lr = schedule_(schedule_step());
  const StepResult result = stepper_->step(parts, lr, samples, idle_parts(parts));
  // On average over ranks the sum over all their samples.
  state_.loss_sum +=
      result.own_loss * static_cast<double>(result.own_samples) * ranks_->data.size();
  if (result.own_samples > 0) own_loss_ = result.own_loss;
  ++state_.step;
  ++state_.steps;
  state_.samples += static_cast<std::int64_t>(samples);
  step_done();
  throughput_.step(samples, data_before + stream.seconds_waited(),
                   stepper_->update().seconds_waiting());
  tell(&Observer::stepped, moment(own_loss_, lr));
  if (end_request_ && !ended()) end_where_asked();
}

// What this rank goes through the model with, behind `parts` of its own, where others have more:
// something that it has.
std::vector<Batch> Loop::idle_parts(const std::vector<Batch>& parts) {
  const std::size_t most = in_units() ? plan_->most_parts_in(state_.step) : parts.size();
  if (parts.size() >= most) return {};
  auto any = parts.empty() ? parts_.data.batches(Split::train, {{0}}, 0)->next() : parts.front();
  if (!any || any->size() == 0)
    throw InputError("--shard parameters: the data have nothing where sample 0 should be");
  return std::vector<Batch>(most - parts.size(), *any);
}

void Loop::end_where_asked() {
  const int signal = end_request_->on_any_rank(ranks_->all);
  if (signal != 0) end_for(signal);
}

void Loop::end_for(int signal) {
  std::string why = fmt::format("asked to end ({}): stopped after step {} of epoch {}",
                                ::strsignal(signal), state_.step, state_.epoch);
  if (!options_.checkpoint_dir.empty()) {
    const auto file = save_checkpoint(/*best=*/false);
    saver_->wait();
    why += "; --resume goes on";
    if (!file.empty()) why += " from " + file;
  }
  tell(&Observer::stopped, why);
  ranks_->all.barrier();  // whoever ends first has the others ended
  throw Stopped(why, signal);
}

// Or its part, where --max-steps ended it.
void Loop::end_epoch() {
  stepper_->update().join_weights();
  const auto samples = static_cast<double>(std::max<std::int64_t>(state_.samples, 1));
  state_.train_loss =
      average_metrics({{"loss", state_.loss_sum / samples}}, 1, ranks_->data).at("loss");
  const auto epoch = state_.epoch;
  if (const auto observed = stepper_->update().observed(); !observed.empty())
    tell(&Observer::noted, observed);
  test(epoch);
  const bool best = is_best();
  const double lr = schedule_(schedule_step() - 1);
  state_.history.push_back({.epoch = static_cast<int>(epoch),
                            .lr = lr,
                            .train_loss = state_.train_loss,
                            .test_loss = state_.test_loss,
                            .test_metrics = state_.test_metrics,
                            .samples_per_second = throughput_.epoch().samples_per_second(),
                            .seconds = seconds()});
  tell(&Observer::epoch_ended, moment(own_loss_, lr), state_.history.back());
  if (has_diverged())
    tell(&Observer::noted,
         "the loss is no number any more: a lower --lr, a --clip-norm or --warmup-epochs may help");
  if (state_.step == steps_per_epoch_) {
    ++state_.epoch;
    state_.step = 0;
    state_.samples = 0;
    state_.loss_sum = 0;
    if (begun_.samples > 0) make_plan();
  }
  unsaved_ = best ? Unsaved::best : Unsaved::last;
  step_done();
  save();
}

std::string Loop::save_checkpoint(bool best) {
  state_.seconds = seconds();
  return saver_->save(state_, parts_.model, *stepper_, best);
}

bool Loop::has_diverged() const {
  return std::isnan(parts_.tests ? state_.test_loss : state_.train_loss);
}

// What an epoch has come to: also in the world after the one in which it ended.
void Loop::save() {
  if (unsaved_ == Unsaved::nothing) return;
  report_.checkpoint = save_checkpoint(unsaved_ == Unsaved::best);
  unsaved_ = Unsaved::nothing;
  step_done();
}

void Loop::test(std::int64_t epoch) {
  if (!parts_.tests) return;
  int signal = 0;
  std::function<bool()> is_to_leave;
  // Where the training goes on behind it, with this test first.
  if (end_request_ && state_.epoch <= options_.epochs && !ended())
    is_to_leave = [&] {
      return (signal = end_request_->on_any_rank(ranks_->all)) != 0;
    };
  if (elastic_ != nullptr)
    is_to_leave = [&] {
      leave_in_order(&elastic::State::ask);
      return false;
    };
  auto result = evaluate({.model = parts_.model,
                          .objective = parts_.objective,
                          .data = parts_.data,
                          .input_type = stepper_->update().input_type(),
                          .together = in_units(),
                          .staged = stepper_->staged(),
                          .is_to_leave = is_to_leave},
                         static_cast<std::size_t>(epoch), ranks_->data);
  // A test may be long, and is made again by whoever goes on.
  if (signal != 0) end_for(signal);
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

void Loop::save_weights(const std::filesystem::path& file, CheckpointMetadata metadata) {
  const auto weights = stepper_->update().save_weights(file, std::move(metadata));
  if (weights) write_checkpoint(file, *weights);
}

}  // namespace sullae::train
