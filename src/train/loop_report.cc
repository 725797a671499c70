// What the loop tells of a run.
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <set>

#include "base/counted.h"
#include "base/error_text.h"
#include "base/host.h"
#include "base/split.h"
#include "sullae/train/fit.h"
#include "torch/agreement.h"
#include "train/division.h"
#include "train/loop.h"
#include "train/update/weight_update.h"

namespace sullae::train {
namespace {

// Those of several ranks, each once: ranks read the same records, all at once or in different
// epochs. Collective.
std::int64_t count_together(const std::set<std::uint64_t>& own, const World& world) {
  std::string mine;
  for (const std::uint64_t one : own) mine += fmt::format("{:x}\n", one);
  std::set<std::string> all;
  for (const std::string& text : allgather_texts(world, mine)) {
    for (auto& one : split(text, '\n')) all.insert(std::move(one));
  }
  return static_cast<std::int64_t>(all.size());
}

}  // namespace

void Loop::describe() {
  report_.recipe = parts_.name;
  report_.data = parts_.data.data_description();
  report_.world_size = ranks_->all.size();
  report_.threads = torch::get_num_threads();
  report_.batch_size = options_.batch_size;
  report_.scale_up = options_.scale_up;
  report_.configuration = options_.configuration;
  report_.tested = parts_.tests;
  report_.metrics = metrics_;
  report_.parameters = count_parameters(parts_.model, *ranks_);
  tell(&Observer::started, report_);
}

void Loop::tell_of_settings() const {
  const bool begins = state_.steps == 0;
  if (begins && options_.warmup_epochs >= options_.epochs && options_.epochs > 0)
    tell(&Observer::noted,
         fmt::format("--warmup-epochs {:g}: with {} the learning rate does not get to --lr {:g}",
                     options_.warmup_epochs, counted(options_.epochs, "epoch"), options_.lr));
  if (begins && steps_per_epoch_ == 1 && plan_->size() > 1)
    tell(&Observer::noted, fmt::format("--batch-size {}: an epoch is one step, of all {} samples",
                                       options_.batch_size, plan_->size()));
  if (has_parameter_servers() && options_.device == "auto" && local_device(ranks_->all).is_cuda())
    tell(&Observer::noted,
         "the GPU is left alone: parameter servers train in host memory alone so far");
  // (P - 1) / (m × v + P - 1) of the time, with m parts and v stages a rank.
  if (ranks_->stages &&
      options_.accumulation_steps * options_.stages_per_rank < ranks_->stages->size())
    tell(&Observer::noted,
         fmt::format("--mesh {}: with {} of a step its ranks wait for each other for half of "
                     "the time or more: --accumulation-steps {} makes more parts",
                     options_.mesh, counted(options_.accumulation_steps, "part"),
                     4 * ranks_->stages->size()));
}

Moment Loop::moment(double loss, double lr) const {
  const Throughput::Steps& recent = throughput_.recent();
  auto left = (options_.epochs - state_.epoch + 1) * steps_per_epoch_ - state_.step;
  if (options_.max_steps > 0) left = std::min(left, options_.max_steps - state_.steps);
  return {.epoch = static_cast<int>(state_.epoch),
          .epochs = options_.epochs,
          .step = state_.step,
          .steps_per_epoch = steps_per_epoch_,
          .total_steps = state_.steps,
          .loss = loss,
          .lr = lr,
          .samples_per_second = recent.samples_per_second(),
          .seconds_left = recent.seconds_a_step() * static_cast<double>(left),
          .waiting_for_data = recent.part_waiting_for_data(),
          .waiting_for_ranks = recent.part_waiting_for_ranks(),
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
  report_.history = state_.history;
  report_.samples_per_second = throughput_.all().samples_per_second();
  if (!state_.history.empty()) {
    report_.epochs = state_.history.back().epoch;
    // There was nothing left to do.
    if (report_.samples_per_second == 0)
      report_.samples_per_second = state_.history.back().samples_per_second;
  }
  report_.waiting_for_data = throughput_.all().part_waiting_for_data();
  report_.waiting_for_ranks = throughput_.all().part_waiting_for_ranks();
  report_.skipped_steps = stepper_->scaler().skipped();
  report_.seconds = seconds();
  report_.damaged_records = count_together(parts_.data.damaged_records(), ranks_->data);
  report_.peak_memory = peak_memory();
  ranks_->all.allreduce(&report_.peak_memory, &report_.peak_memory, 1, DataType::int64,
                        ReduceOp::max);
  tell(&Observer::ended, report_);
}

void Loop::tell_failure(const std::function<void()>& part) const {
  try {
    part();
  } catch (const Stopped&) {
    throw;
  } catch (const std::exception& error) {
    tell(&Observer::failed, message_of(error));
    throw;
  }
}

}  // namespace sullae::train
