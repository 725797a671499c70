#include "torch/sgd.h"

#include <torch/torch.h>

#include <algorithm>

#include "sullae/torch/optimizers.h"
#include "torch/optimizer_state.h"

namespace sullae {
namespace {

bool is_on_device(const torch::Tensor& parameter) {
  return !parameter.grad().defined() || (parameter.is_cuda() && !parameter.grad().is_sparse());
}

}  // namespace

void update_together(std::vector<torch::Tensor> parameters, std::vector<torch::Tensor>& momenta,
                     const torch::optim::SGDOptions& options) {
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
  if (options.weight_decay() != 0)
    gradients = torch::_foreach_add(gradients, parameters, options.weight_decay());
  if (options.momentum() != 0) {
    // All at once or, with a parameter that gets its first gradient late, one by one.
    if (std::ranges::all_of(momenta, &torch::Tensor::defined)) {
      torch::_foreach_mul_(momenta, options.momentum());
      torch::_foreach_add_(momenta, gradients, 1 - options.dampening());
    } else {
      for (std::size_t i = 0; i < momenta.size(); ++i) {
        if (momenta[i].defined()) {
          momenta[i].mul_(options.momentum()).add_(gradients[i], 1 - options.dampening());
        } else {
          momenta[i] = gradients[i].detach().clone();
        }
      }
    }
    gradients =
        options.nesterov() ? torch::_foreach_add(gradients, momenta, options.momentum()) : momenta;
  }
  torch::_foreach_add_(parameters, gradients, -options.lr());
}

// libtorch's momenta would have a row more for each row of a sparse gradient that is there twice,
// at every step.
torch::Tensor SGD::step_one_by_one(const LossClosure& closure) {
  const torch::Tensor loss = loss_of(closure);
  for (const auto& group : param_groups()) {
    if (static_cast<const torch::optim::SGDOptions&>(group.options()).momentum() == 0) continue;
    for (const torch::Tensor& parameter : group.params()) {
      const torch::Tensor& gradient = parameter.grad();
      if (gradient.defined() && gradient.is_sparse())
        parameter.mutable_grad() = gradient.coalesce();
    }
  }
  torch::optim::SGD::step();
  return loss;
}

torch::Tensor SGD::step(LossClosure closure) {
  for (const auto& group : param_groups()) {
    if (!std::ranges::all_of(group.params(), is_on_device)) return step_one_by_one(closure);
  }
  const torch::Tensor loss = loss_of(closure);
  const torch::NoGradGuard guard;
  for (auto& group : param_groups()) {
    const auto& options = static_cast<const torch::optim::SGDOptions&>(group.options());
    std::vector<torch::Tensor> parameters;
    std::vector<torch::Tensor> momenta;
    for (const torch::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      parameters.push_back(parameter);
      if (options.momentum() == 0) continue;
      const auto found = state_.find(key_of(state_, parameter));
      momenta.push_back(
          found == state_.end()
              ? torch::Tensor()
              : static_cast<torch::optim::SGDParamState&>(*found->second).momentum_buffer());
    }
    if (parameters.empty()) continue;
    update_together(parameters, momenta, options);
    for (std::size_t i = 0; i < momenta.size(); ++i) {
      auto& state = state_[key_of(state_, parameters[i])];
      if (state == nullptr) state = std::make_unique<torch::optim::SGDParamState>();
      static_cast<torch::optim::SGDParamState&>(*state).momentum_buffer(momenta[i]);
    }
  }
  return loss;
}

}  // namespace sullae
