#include <cmath>
#include <utility>
#include <vector>

#include "sullae/torch/optimizers.h"
#include "torch/optimizer_state.h"

namespace sullae {
namespace {

// Biases and the parameters of norms are neither decayed nor adapted.
bool is_adapted(const torch::Tensor& parameter) { return parameter.dim() > 1; }

double norm_of(const torch::Tensor& tensor) { return tensor.norm().item<double>(); }

// Of groups whose gradients have it in them already, for as long as this lives.
class DecaysSetAside {
 public:
  DecaysSetAside() = default;
  ~DecaysSetAside() {
    for (const auto& [options, decay] : taken_) options->weight_decay(decay);
  }
  DecaysSetAside(const DecaysSetAside&) = delete;
  DecaysSetAside& operator=(const DecaysSetAside&) = delete;

  double take(torch::optim::OptimizerParamGroup& group) {
    auto& options = static_cast<torch::optim::SGDOptions&>(group.options());
    taken_.emplace_back(&options, options.weight_decay());
    options.weight_decay(0);
    return taken_.back().second;
  }

 private:
  std::vector<std::pair<torch::optim::SGDOptions*, double>> taken_;
};

}  // namespace

LARS::LARS(std::vector<torch::Tensor> parameters, torch::optim::SGDOptions options,
           double trust_coefficient)
    : torch::optim::SGD(std::move(parameters), std::move(options)),
      trust_coefficient_(trust_coefficient) {}

torch::Tensor LARS::step(LossClosure closure) {
  const torch::Tensor loss = loss_of(closure);
  const torch::NoGradGuard guard;
  DecaysSetAside decays;
  for (auto& group : param_groups()) {
    const double decay = decays.take(group);
    for (auto& parameter : group.params()) {
      torch::Tensor& gradient = parameter.mutable_grad();
      if (!gradient.defined() || !is_adapted(parameter)) continue;
      if (gradient.is_sparse()) gradient = gradient.to_dense();
      const double weight_norm = norm_of(parameter);
      const double gradient_norm = norm_of(gradient);
      if (decay != 0) gradient.add_(parameter, decay);
      const double sum = gradient_norm + decay * weight_norm;
      if (weight_norm > 0 && sum > 0) gradient.mul_(trust_coefficient_ * weight_norm / sum);
    }
  }
  torch::optim::SGD::step();
  return loss;
}

torch::Tensor LAMB::step(LossClosure closure) {
  const torch::Tensor loss = loss_of(closure);
  const torch::NoGradGuard guard;
  for (auto& group : param_groups()) {
    const auto& options = static_cast<const torch::optim::AdamWOptions&>(group.options());
    const double beta1 = std::get<0>(options.betas());
    const double beta2 = std::get<1>(options.betas());
    for (auto& parameter : group.params()) {
      torch::Tensor gradient = parameter.grad();
      if (!gradient.defined()) continue;
      if (gradient.is_sparse()) gradient = gradient.to_dense();
      auto& state = adam_state<torch::optim::AdamWParamState>(*this, parameter, /*amsgrad=*/false);
      state.step(state.step() + 1);
      state.exp_avg().mul_(beta1).add_(gradient, 1 - beta1);
      state.exp_avg_sq().mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
      const double correction1 = 1 - std::pow(beta1, static_cast<double>(state.step()));
      const double correction2 = 1 - std::pow(beta2, static_cast<double>(state.step()));
      torch::Tensor update = (state.exp_avg() / correction1) /
                             ((state.exp_avg_sq() / correction2).sqrt_().add_(options.eps()));
      double trust = 1;
      if (is_adapted(parameter)) {
        if (options.weight_decay() != 0) update.add_(parameter, options.weight_decay());
        const double weight_norm = norm_of(parameter);
        const double update_norm = norm_of(update);
        if (weight_norm > 0 && update_norm > 0) trust = weight_norm / update_norm;
      }
      parameter.add_(update, -options.lr() * trust);
    }
  }
  return loss;
}

}  // namespace sullae
