#include "train/stepper.h"

#include <torch/torch.h>

#include "train/checked_objective.h"
#include "train/loss_scale.h"

namespace sullae::train {
namespace {

// Images follow: a convolution takes the layout of its weight for both.
void put_channels_last(torch::nn::Module& model) {
  for (auto& parameter : model.parameters()) {
    if (parameter.dim() == 4)
      parameter.set_data(parameter.data().contiguous(torch::MemoryFormat::ChannelsLast));
  }
}

}  // namespace

Stepper::Stepper(torch::nn::Module& model, const Objective& objective, const TrainOptions& options,
                 torch::Device device, const Ranks* ranks)
    : model_(model),
      objective_(objective),
      options_(options),
      device_(device),
      scaler_(parse_loss_scale(options)) {
  if (options.channels_last) put_channels_last(model);
  update_ = make_update(model, options, ranks);
  if (HasStages* const stages = stages_of(model))
    staged_ = std::make_unique<StagedModel>(model, *stages, objective);
  if (options.scale_up > 1) {
    const std::vector<torch::Device> devices(static_cast<std::size_t>(options.scale_up), device_);
    replicas_.emplace(model, devices, /*threads_a_replica=*/0);
  }
}

Stepper::~Stepper() = default;

void Stepper::enter(const World& world) {
  ranks_ = world.size();
  update_->enter(world);
}

StepResult Stepper::step(const std::vector<Batch>& parts, double lr,
                         std::optional<std::size_t> samples, const std::vector<Batch>& idle) {
  for (auto& group : update_->optimizer().param_groups()) group.options().set_lr(lr);
  update_->zero_grad();
  const Losses losses = backward(parts, samples);
  run_idle(idle);
  const bool finite = update_->reduce(scaler_.scale());
  if (finite) {
    if (options_.clip_norm > 0) update_->clip(options_.clip_norm);
    update_->step();
  }
  if (low_precision(options_)) scaler_.update(finite);
  update_->step_ended();
  // Only now, since it waits for a GPU.
  double sum = losses.of_stages;
  for (const torch::Tensor& loss : losses.of_parts) sum += loss.item<double>();
  return {.own_loss = losses.own > 0 ? sum * losses.total / losses.own : 0,
          .own_samples = static_cast<std::int64_t>(losses.own)};
}

torch::Tensor Stepper::loss_of(torch::nn::Module& model, const Batch& batch, double total) const {
  const auto loss = checked_loss(objective_, model, batch.to(device_, update_->input_type()));
  return loss * (static_cast<double>(batch.size()) / total);
}

void Stepper::run_idle(const std::vector<Batch>& idle) {
  for (const Batch& batch : idle)
    (loss_of(model_, batch, static_cast<double>(batch.size())) * 0).backward();
}

// The parts' losses add up to the mean over the whole: of this rank where it steps alone, else, on
// average over the ranks, of all of them.
Stepper::Losses Stepper::backward(const std::vector<Batch>& parts,
                                  std::optional<std::size_t> samples) {
  Losses losses;
  for (const Batch& part : parts) losses.own += static_cast<double>(part.size());
  losses.total = losses.own;
  if (samples && update_->averages_gradients())
    losses.total = static_cast<double>(*samples) / ranks_;
  if (staged_) {
    losses.of_stages = backward_in_stages(parts, losses.total);
    return losses;
  }
  losses.of_parts.resize(parts.size());
  const auto run = [&](torch::nn::Module& model, std::size_t part) {
    const auto loss = loss_of(model, parts[part], losses.total);
    scaler_.scale(loss).backward();
    losses.of_parts[part] = loss.detach();
  };
  if (!replicas_) {
    for (std::size_t part = 0; part < parts.size(); ++part) run(model_, part);
  } else {
    for (std::size_t first = 0; first < parts.size(); first += replicas_->size()) {
      replicas_->run([&](std::size_t index) {
        if (first + index < parts.size()) run(replicas_->replica(index), first + index);
      });
    }
  }
  return losses;
}

// Of which each stage has the whole batch.
double Stepper::backward_in_stages(const std::vector<Batch>& parts, double total) {
  std::vector<Batch> batches;
  std::vector<double> weights;
  for (const Batch& part : parts) {
    batches.push_back(part.to(device_, update_->input_type()));
    weights.push_back(static_cast<double>(part.size()) / total);
  }
  return staged_->train(batches, weights, scaler_.scale());
}

}  // namespace sullae::train
