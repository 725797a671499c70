#include <fmt/format.h>
#include <torch/torch.h>

#include <typeinfo>

#include "sullae/error.h"
#include "sullae/torch.h"
#include "torch/optimizer_state.h"

namespace sullae {
namespace {

using torch::Tensor;

void average(Tensor tensor, const World& world) { allreduce(tensor, ReduceOp::average, world); }

// Steps that a state counts; 0 where there is none yet.
std::int64_t steps_of(const torch::optim::OptimizerParamState* state) {
  if (const auto* adam = dynamic_cast<const torch::optim::AdamParamState*>(state))
    return adam->step();
  if (const auto* adamw = dynamic_cast<const torch::optim::AdamWParamState*>(state))
    return adamw->step();
  return state == nullptr ? 0 : 1;
}

template <class State>
void average_adam(torch::optim::Optimizer& optimizer, const Tensor& parameter, bool amsgrad,
                  std::int64_t steps, const World& world) {
  auto& state = adam_state<State>(optimizer, parameter, amsgrad);
  state.step(steps);
  average(state.exp_avg(), world);
  average(state.exp_avg_sq(), world);
  if (amsgrad) average(state.max_exp_avg_sq(), world);
}

void average_momentum(torch::optim::Optimizer& optimizer, const Tensor& parameter,
                      const World& world) {
  auto& state = optimizer.state()[key_of(optimizer.state(), parameter)];
  if (state == nullptr) {
    auto fresh = std::make_unique<torch::optim::SGDParamState>();
    fresh->momentum_buffer(torch::zeros_like(parameter));
    state = std::move(fresh);
  }
  auto& momentum = static_cast<torch::optim::SGDParamState&>(*state);
  if (!momentum.momentum_buffer().defined()) return;
  if (momentum.momentum_buffer().is_sparse())
    momentum.momentum_buffer(momentum.momentum_buffer().to_dense());
  average(momentum.momentum_buffer(), world);
}

}  // namespace

void average_optimizer_state(torch::optim::Optimizer& optimizer, const World& world) {
  if (world.size() == 1) return;
  const torch::NoGradGuard guard;
  // A rank on which a parameter had no gradient yet has no state for it, which means zeros.
  std::vector<std::int64_t> steps;
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) {
      const auto found = optimizer.state().find(key_of(optimizer.state(), parameter));
      steps.push_back(steps_of(found == optimizer.state().end() ? nullptr : found->second.get()));
    }
  }
  world.allreduce(steps.data(), steps.data(), steps.size(), DataType::int64, ReduceOp::max);
  std::size_t index = 0;
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) {
      const std::int64_t most = steps[index++];
      if (most == 0) continue;
      const auto* of_group = &group.options();
      if (const auto* adam = dynamic_cast<const torch::optim::AdamOptions*>(of_group)) {
        average_adam<torch::optim::AdamParamState>(optimizer, parameter, adam->amsgrad(), most,
                                                   world);
      } else if (const auto* adamw = dynamic_cast<const torch::optim::AdamWOptions*>(of_group)) {
        average_adam<torch::optim::AdamWParamState>(optimizer, parameter, adamw->amsgrad(), most,
                                                    world);
      } else if (dynamic_cast<const torch::optim::SGDOptions*>(of_group) != nullptr) {
        average_momentum(optimizer, parameter, world);
      } else {
        throw InputError(fmt::format(
            "average_optimizer_state: expected an optimizer with the state of SGD, Adam or AdamW, "
            "got {}",
            typeid(optimizer).name()));
      }
    }
  }
}

}  // namespace sullae
