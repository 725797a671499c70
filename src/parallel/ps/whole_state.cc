#include "parallel/ps/whole_state.h"

#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "torch/optimizer_state.h"

namespace sullae::ps {
namespace {

void copy_range(const std::vector<float>& from, std::size_t at, std::vector<float>& to,
                std::size_t to_at, std::size_t elements) {
  if (from.empty()) return;
  std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(at), elements,
              to.begin() + static_cast<std::ptrdiff_t>(to_at));
}

// In the parameter's layout.
torch::Tensor tensor_of(const std::vector<float>& values, const torch::Tensor& parameter) {
  const auto flat = torch::from_blob(const_cast<float*>(values.data()), parameter.sizes());
  return torch::empty_like(parameter.detach()).copy_(flat);
}

void copy_from(const torch::Tensor& tensor, std::vector<float>& into) {
  const auto flat = tensor.contiguous();
  std::copy_n(flat.data_ptr<float>(), into.size(), into.begin());
}

template <class State>
std::unique_ptr<State> adam_state_of(const RuleState& state, const torch::Tensor& parameter) {
  auto given = std::make_unique<State>();
  given->step(state.steps);
  given->exp_avg(tensor_of(state.first, parameter));
  given->exp_avg_sq(tensor_of(state.second, parameter));
  return given;
}

template <class State>
void take_adam(const torch::optim::OptimizerParamState& from, RuleState& into) {
  const auto& state = dynamic_cast<const State&>(from);
  into.steps = state.step();
  copy_from(state.exp_avg(), into.first);
  copy_from(state.exp_avg_sq(), into.second);
}

}  // namespace

void WholeState::put(const Range& range, const RuleState& part) {
  state_.steps = std::max(state_.steps, part.steps);
  copy_range(part.first, 0, state_.first, range.from, range.elements());
  copy_range(part.second, 0, state_.second, range.from, range.elements());
}

void WholeState::get(const Range& range, RuleState& part) const {
  part.steps = state_.steps;
  copy_range(state_.first, range.from, part.first, 0, range.elements());
  copy_range(state_.second, range.from, part.second, 0, range.elements());
}

void WholeState::give(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter) const {
  if (state_.steps == 0 || state_.first.empty()) return;
  auto& state = optimizer.state()[key_of(optimizer.state(), parameter)];
  switch (kind_) {
    case Rule::Kind::sgd: {
      auto given = std::make_unique<torch::optim::SGDParamState>();
      given->momentum_buffer(tensor_of(state_.first, parameter));
      state = std::move(given);
      return;
    }
    case Rule::Kind::adagrad: {
      auto given = std::make_unique<torch::optim::AdagradParamState>();
      given->step(state_.steps);
      given->sum(tensor_of(state_.first, parameter));
      state = std::move(given);
      return;
    }
    case Rule::Kind::adam:
      state = adam_state_of<torch::optim::AdamParamState>(state_, parameter);
      return;
    case Rule::Kind::adamw:
      state = adam_state_of<torch::optim::AdamWParamState>(state_, parameter);
      return;
  }
}

void WholeState::take(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter) {
  const auto found = optimizer.state().find(key_of(optimizer.state(), parameter));
  if (found == optimizer.state().end() || state_.first.empty()) return;
  const torch::optim::OptimizerParamState& state = *found->second;
  switch (kind_) {
    case Rule::Kind::sgd: {
      const auto& momentum =
          dynamic_cast<const torch::optim::SGDParamState&>(state).momentum_buffer();
      if (!momentum.defined()) return;
      state_.steps = 1;  // that there was a first is all that the rule asks
      return copy_from(momentum, state_.first);
    }
    case Rule::Kind::adagrad: {
      const auto& sums = dynamic_cast<const torch::optim::AdagradParamState&>(state);
      state_.steps = sums.step();
      return copy_from(sums.sum(), state_.first);
    }
    case Rule::Kind::adam:
      return take_adam<torch::optim::AdamParamState>(state, state_);
    case Rule::Kind::adamw:
      return take_adam<torch::optim::AdamWParamState>(state, state_);
  }
}

}  // namespace sullae::ps
