#include "train/trainer.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "sullae/torch.h"
#include "train/checkpoints.h"
#include "train/evaluation.h"
#include "train/export.h"
#include "train/monitor/event_file.h"
#include "train/monitor/metrics_file.h"
#include "train/monitor/progress.h"
#include "train/monitor/report_page.h"
#include "train/optimizers.h"
#include "train/run_state.h"
#include "train/schedule.h"
#include "train/step_plan.h"
#include "train/stepper.h"
#include "train/throughput.h"
#include "train/trained_on.h"

namespace sullae::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// "1234" or "1.2 million".
std::string count_of(std::int64_t parameters) {
  constexpr std::int64_t kMillion = 1'000'000;
  return parameters < kMillion / 10
             ? fmt::to_string(parameters)
             : fmt::format("{:.1f} million", static_cast<double>(parameters) / kMillion);
}

std::unique_ptr<Task> make_task(const Recipe& recipe, const TrainOptions& options,
                                const World& world) {
  // The weights are drawn from the seed; rank 0's are then everybody's.
  torch::manual_seed(options.seed);
  auto task = recipe.make(options, world);
  if (task->size(Split::train) == 0) throw InputError("there are no samples to train on");
  return task;
}

class Run {
 public:
  Run(const Recipe& recipe, const TrainOptions& options, const World& world)
      : recipe_(recipe),
        options_(options),
        world_(world),
        progress_(world.rank() == 0, options.log_interval),
        task_(make_task(recipe, options, world)),
        plan_(task_->size(Split::train), options, world.rank(), world.size()),
        steps_per_epoch_(plan_.steps()),
        schedule_(make_schedule(options, steps_per_epoch_)) {
    state_.samples_a_step = options.batch_size;
    if (world.rank() == 0) {
      if (!options.checkpoint_dir.empty())
        checkpoints_.emplace(options.checkpoint_dir, recipe.name(), options.keep_checkpoints);
      if (!options.tensorboard_dir.empty()) events_.emplace(options.tensorboard_dir);
    }
    // Ranks drop out different cells.
    torch::manual_seed(options.seed * 1000003 + static_cast<std::uint64_t>(world.rank()) + 1);
  }

  Report train() {
    describe();
    const auto loaded = resume();
    task_->model()->to(local_device(world_));
    broadcast_parameters(*task_->model(), 0, world_);
    start_stepper(loaded);
    task_->model()->train();
    if (state_.epoch > options_.epochs || ended()) {
      progress_.line(fmt::format("nothing is left to train after step {}", state_.steps));
      test(options_.epochs);
    }
    while (state_.epoch <= options_.epochs && !ended()) train_epoch();
    if (checkpoints_) checkpoints_->wait();
    finish_report();
    export_model();
    return report_;
  }

 private:
  void describe() {
    report_.recipe = recipe_.name();
    report_.data = task_->data_description();
    report_.world_size = world_.size();
    report_.threads = torch::get_num_threads();
    report_.batch_size = options_.batch_size;
    report_.scale_up = options_.scale_up;
    report_.configuration = options_.configuration;
    for (const auto& parameter : task_->model()->parameters())
      report_.parameters += parameter.numel();
    progress_.line(fmt::format("{}: {}; {} parameters; {} rank{} of {} thread{}, {} samples a step",
                               report_.recipe, report_.data, count_of(report_.parameters),
                               world_.size(), world_.size() == 1 ? "" : "s", report_.threads,
                               report_.threads == 1 ? "" : "s", options_.batch_size));
  }

  bool ended() const { return options_.max_steps > 0 && state_.steps >= options_.max_steps; }

  // The weights are loaded before they are cast, and the optimizer's state when there is one: into one
  // that is made for it here.
  std::unique_ptr<torch::optim::Optimizer> resume() {
    if (!options_.resume) return nullptr;
    auto optimizer = make_optimizer(options_, task_->model()->named_parameters());
    std::optional<CheckpointMetadata> metadata;
    if (checkpoints_) metadata = checkpoints_->load_newest(*task_->model(), *optimizer);
    std::int64_t found = metadata.has_value() ? 1 : 0;
    world_.broadcast(&found, 1, DataType::int64, 0);
    if (found == 0) {
      progress_.line(
          fmt::format("no checkpoint in {} yet: starting anew", options_.checkpoint_dir.string()));
      return nullptr;
    }
    state_ = restore(metadata ? &*metadata : nullptr, world_);
    adapt_to_batch_size();
    progress_.line(state_.step == 0 ? fmt::format("resuming after epoch {}", state_.epoch - 1)
                                    : fmt::format("resuming after step {} of epoch {}", state_.step,
                                                  state_.epoch));
    return optimizer;
  }

  // A position within an epoch counts samples, of which a step may now have others.
  void adapt_to_batch_size() {
    if (state_.samples_a_step == options_.batch_size) return;
    state_.step = state_.step * state_.samples_a_step / options_.batch_size;
    state_.steps = (state_.epoch - 1) * steps_per_epoch_ + state_.step;
    state_.samples_a_step = options_.batch_size;
  }

  void start_stepper(const std::unique_ptr<torch::optim::Optimizer>& loaded) {
    stepper_.emplace(*task_->model(), options_, world_);
    if (loaded == nullptr) return;
    move_optimizer_state(*loaded, stepper_->optimizer());
    broadcast_optimizer_state(stepper_->optimizer(), 0, world_);
    if (!state_.scaler.empty()) stepper_->scaler().load_state(state_.scaler);
  }

  void train_epoch() {
    const auto stream = task_->batches(
        Split::train, plan_.of_epoch(static_cast<std::size_t>(state_.epoch), state_.step),
        static_cast<std::size_t>(state_.epoch));
    const double data_before = throughput_.waiting_for_data();
    while (state_.step < steps_per_epoch_ && !ended()) {
      std::vector<Batch> parts;
      const std::size_t samples = plan_.samples_in(state_.step);
      for (std::size_t part = plan_.parts_in(state_.step); part > 0; --part) {
        auto batch = stream->next();
        if (batch && batch->size() > 0) parts.push_back(std::move(*batch));
      }
      const double lr = schedule_(state_.steps);
      const StepResult result = stepper_->step(parts, lr, samples);
      state_.loss_sum += result.loss;
      ++state_.step;
      ++state_.steps;
      throughput_.step(samples, data_before + stream->seconds_waited(),
                       stepper_->seconds_waiting_for_ranks());
      show(result.own_loss, lr);
      if (options_.checkpoint_steps > 0 && state_.steps % options_.checkpoint_steps == 0 &&
          state_.step < steps_per_epoch_)
        save(/*best=*/false);
    }
    throughput_.pause();
    end_epoch();
  }

  // Or its part, where --max-steps ended it.
  void end_epoch() {
    stepper_->join_weights();
    state_.train_loss =
        average_metrics({{"loss", state_.loss_sum /
                                      static_cast<double>(std::max<std::int64_t>(state_.step, 1))}},
                        1, world_)
            .at("loss");
    const auto epoch = state_.epoch;
    test(epoch);
    const bool best = state_.test_accuracy > state_.best_accuracy;
    state_.best_accuracy = std::max(state_.best_accuracy, state_.test_accuracy);
    report_.epochs = static_cast<int>(epoch);
    record_epoch(epoch);
    if (state_.step == steps_per_epoch_) {
      ++state_.epoch;
      state_.step = 0;
      state_.loss_sum = 0;
    }
    save(best);
  }

  void test(std::int64_t epoch) {
    const auto result = evaluate(*task_, static_cast<std::size_t>(epoch), local_device(world_),
                                 stepper_->input_type(), world_);
    state_.test_loss = result.loss;
    state_.test_accuracy = result.accuracy;
  }

  Moment moment(double loss, double lr) const {
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
            .damaged_records = static_cast<std::int64_t>(task_->damaged()),
            .test_loss = state_.test_loss,
            .test_accuracy = state_.test_accuracy};
  }

  void show(double loss, double lr) {
    if (world_.rank() != 0) return;
    const Moment now = moment(loss, lr);
    progress_.step(now);
    if (state_.steps % options_.log_interval != 0 && state_.step != steps_per_epoch_) return;
    if (events_) {
      events_->write(now.total_steps, {{"train/loss", now.loss},
                                       {"train/learning_rate", now.lr},
                                       {"train/loss_scale", now.loss_scale},
                                       {"throughput/samples_per_second", now.samples_per_second},
                                       {"throughput/waiting_for_data", now.waiting_for_data},
                                       {"throughput/waiting_for_ranks", now.waiting_for_ranks}});
    }
    if (!options_.metrics_file.empty())
      write_metrics(options_.metrics_file, recipe_.name(), world_.size(), now);
  }

  void record_epoch(std::int64_t epoch) {
    if (world_.rank() != 0) return;
    const double lr = schedule_(state_.steps - 1);
    progress_.line(
        fmt::format("epoch {}/{}  train loss {:.4f}  test loss {:.4f}  test accuracy {:.2f} %  "
                    "{:.0f} samples/s",
                    epoch, options_.epochs, state_.train_loss, state_.test_loss,
                    100 * state_.test_accuracy, throughput_.samples_per_second()));
    report_.history.push_back({.epoch = static_cast<int>(epoch),
                               .lr = lr,
                               .train_loss = state_.train_loss,
                               .test_loss = state_.test_loss,
                               .test_accuracy = state_.test_accuracy,
                               .samples_per_second = throughput_.samples_per_second(),
                               .seconds = seconds_since(start_)});
    if (events_) {
      events_->write(state_.steps, {{"test/loss", state_.test_loss},
                                    {"test/accuracy", state_.test_accuracy},
                                    {"train/epoch_loss", state_.train_loss}});
    }
    if (!options_.metrics_file.empty())
      write_metrics(options_.metrics_file, recipe_.name(), world_.size(),
                    moment(state_.train_loss, lr));
  }

  void save(bool best) {
    if (options_.checkpoint_dir.empty()) return;
    stepper_->join_weights();
    state_.scaler = stepper_->scaler().state();
    auto metadata = to_metadata(state_, gather_generators(world_), options_.configuration);
    if (!checkpoints_) return;
    add_description(metadata, task_->description());
    report_.checkpoint = checkpoints_
                             ->save(state_.steps,
                                    serialize_checkpoint(*task_->model(), &stepper_->optimizer(),
                                                         {.metadata = std::move(metadata),
                                                          .weights = stepper_->master_weights()}),
                                    best)
                             .string();
  }

  // The weights as they are now, as a version of a model repository.
  void export_model() {
    if (options_.export_dir.empty() || world_.rank() != 0) return;
    CheckpointMetadata metadata;
    add_configuration(metadata, options_.configuration);
    add_description(metadata, task_->description());
    const auto exported = export_version(
        options_.export_dir, options_.export_name.empty() ? recipe_.name() : options_.export_name,
        serialize_checkpoint(
            *task_->model(), nullptr,
            {.metadata = std::move(metadata), .weights = stepper_->master_weights()}));
    progress_.line(fmt::format("exported as {}: `sullae serve {}` serves it", exported.string(),
                               options_.export_dir.string()));
  }

  void finish_report() {
    report_.steps = state_.steps;
    report_.train_loss = state_.train_loss;
    report_.test_loss = state_.test_loss;
    report_.test_accuracy = state_.test_accuracy;
    report_.samples_per_second = throughput_.samples_per_second();
    report_.waiting_for_data = throughput_.part_waiting_for_data();
    report_.waiting_for_ranks = throughput_.part_waiting_for_ranks();
    report_.skipped_steps = stepper_->scaler().skipped();
    report_.seconds = seconds_since(start_);
    auto damaged = static_cast<std::int64_t>(task_->damaged());
    world_.allreduce(&damaged, &damaged, 1, DataType::int64);
    report_.damaged_records = damaged;
    progress_.line(
        fmt::format("test accuracy {:.2f} %, {:.0f} samples/s, {:.1f} s in all{}",
                    100 * report_.test_accuracy, report_.samples_per_second, report_.seconds,
                    damaged > 0 ? fmt::format(", {} damaged records left out", damaged) : ""));
    if (options_.report.empty() || world_.rank() != 0) return;
    report_.write(options_.report);
    auto page = options_.report;
    write_report_page(page.replace_extension(".html"), {report_});
  }

  const Clock::time_point start_ = Clock::now();
  const Recipe& recipe_;
  const TrainOptions& options_;
  World world_;
  Progress progress_;
  std::unique_ptr<Task> task_;
  StepPlan plan_;
  std::int64_t steps_per_epoch_;
  Schedule schedule_;
  Throughput throughput_;
  RunState state_;
  Report report_;
  std::optional<Stepper> stepper_;
  std::optional<Checkpoints> checkpoints_;  // on rank 0
  std::optional<EventFile> events_;         // on rank 0
};

}  // namespace

Report train(const Recipe& recipe, const TrainOptions& options, const World& world) {
  const TrainOptions checked = checked_options(options, world.size());
  return Run(recipe, checked, world).train();
}

}  // namespace sullae::train
