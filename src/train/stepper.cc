#include "train/stepper.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <chrono>

#include "train/loss_scale.h"
#include "train/optimizers.h"

namespace sullae::train {
namespace {

using Clock = std::chrono::steady_clock;

class Stopwatch {
 public:
  explicit Stopwatch(double& sum) : sum_(sum) {}
  ~Stopwatch() { sum_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& sum_;
  Clock::time_point start_ = Clock::now();
};

// Images follow: a convolution takes the layout of its weight for both.
void put_channels_last(torch::nn::Module& model) {
  for (auto& parameter : model.parameters()) {
    if (parameter.dim() == 4)
      parameter.set_data(parameter.data().contiguous(torch::MemoryFormat::ChannelsLast));
  }
}

}  // namespace

Stepper::Stepper(torch::nn::Module& model, const Objective& objective, const TrainOptions& options,
                 torch::Device device)
    : model_(model),
      objective_(objective),
      options_(options),
      local_sgd_(parse_local_sgd(options.local_sgd)),
      device_(device),
      scaler_(parse_loss_scale(options)) {
  if (options.channels_last) put_channels_last(model);
  weights_ = model.named_parameters();
  for (const auto& weight : weights_.values()) {
    if (weight.is_floating_point()) type_ = weight.scalar_type();
  }
  if (const auto type = low_precision(options)) {
    mixed_.emplace(model, MixedPrecisionOptions{.type = *type});
    type_ = *type;
    weights_ = mixed_->master_named_parameters();
  }
  optimizer_ = make_optimizer(options, weights_);
  if (options.scale_up > 1) {
    const std::vector<torch::Device> devices(static_cast<std::size_t>(options.scale_up), device_);
    replicas_.emplace(model, devices, /*threads_a_replica=*/0);
  }
}

void Stepper::enter(const World& world) {
  distributed_.reset();  // a gradient belongs to one at a time
  world_ = world;
  if (local_sgd_.enabled()) return;
  distributed_.emplace(*optimizer_,
                       reduces_in_float32() || !mixed_ ? weights_ : mixed_->parameters(),
                       DistributedOptimizerOptions{
                           .backward_passes_per_step = replicas_ ? 1 : options_.accumulation_steps,
                           .compression = options_.compression,
                           // Gradients of the master weights are made after backward.
                           .overlap = options_.overlap && !reduces_in_float32()},
                       world);
}

Stepper::~Stepper() = default;

StepResult Stepper::step(const std::vector<Batch>& parts, double lr,
                         std::optional<std::size_t> samples) {
  for (auto& group : optimizer_->param_groups()) group.options().set_lr(lr);
  zero_grad();
  const Losses losses = backward(parts, samples);
  const bool finite = reduce();
  if (finite) {
    clip();
    if (distributed_) {
      distributed_->step();
    } else {
      optimizer_->step();
    }
    if (mixed_) mixed_->update_model();
  }
  if (mixed_) scaler_.update(finite);
  ++steps_apart_;
  if (local_sgd_.steps > 0 && steps_apart_ >= local_sgd_.steps) average_weights();
  // Only now, since it waits for a GPU.
  double sum = 0;
  for (const torch::Tensor& loss : losses.of_parts) sum += loss.item<double>();
  return {.loss = sum,
          .own_loss = losses.own > 0 ? sum * losses.total / losses.own : 0,
          .skipped = !finite};
}

void Stepper::zero_grad() {
  if (mixed_) mixed_->zero_grad();
  if (distributed_) {
    distributed_->zero_grad();
  } else {
    optimizer_->zero_grad();
  }
}

torch::Tensor Stepper::loss_of(torch::nn::Module& model, const Batch& batch, double total) const {
  const auto loss = objective_.loss(model, batch.to(device_, type_));
  if (loss.numel() != 1)
    throw InputError(fmt::format("Objective::loss gave {} numbers, expected one", loss.numel()));
  return loss * (static_cast<double>(batch.size()) / total);
}

// The parts' losses add up to the mean over the whole: of this rank where it steps alone, else, on average over the
// ranks, of all of them.
Stepper::Losses Stepper::backward(const std::vector<Batch>& parts,
                                  std::optional<std::size_t> samples) {
  Losses losses{.of_parts = std::vector<torch::Tensor>(parts.size())};
  for (const Batch& part : parts) losses.own += static_cast<double>(part.size());
  losses.total = losses.own;
  if (samples && distributed_) losses.total = static_cast<double>(*samples) / world_->size();
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

// Returns whether the gradients are finite: on every rank the same where they were reduced.
bool Stepper::reduce() {
  if (reduces_in_float32()) mixed_->unscale(scaler_.scale());
  if (distributed_) {
    const Stopwatch watch(waiting_);
    distributed_->synchronize();
  }
  if (!mixed_) return true;
  if (!reduces_in_float32()) mixed_->unscale(scaler_.scale());
  return mixed_->has_finite_gradients();
}

void Stepper::clip() {
  if (options_.clip_norm > 0)
    torch::nn::utils::clip_grad_norm_(weights_.values(), options_.clip_norm);
}

void Stepper::average_weights() {
  const Stopwatch watch(waiting_);
  steps_apart_ = 0;
  if (mixed_) {
    const torch::NoGradGuard guard;
    for (auto& item : weights_) {
      torch::Tensor weight = item.value().detach();
      allreduce(weight, ReduceOp::average, *world_);
    }
  }
  average_parameters(model_, *world_);
  average_optimizer_state(*optimizer_, *world_);
  if (mixed_) mixed_->update_model();
}

void Stepper::join_weights() {
  if (local_sgd_.enabled() && steps_apart_ > 0) average_weights();
}

std::map<std::string, torch::Tensor> Stepper::master_weights() const {
  std::map<std::string, torch::Tensor> weights;
  if (!mixed_) return weights;
  for (const auto& item : weights_) weights.emplace(item.key(), item.value());
  return weights;
}

}  // namespace sullae::train
