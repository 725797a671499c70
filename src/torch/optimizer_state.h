// Everything that an optimizer needs to go on: its state, and its options, which libtorch's own
// load() leaves out.
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/serialize.h>

#include <memory>
#include <sstream>
#include <string>
#include <type_traits>

namespace sullae {

void save_optimizer(torch::serialize::OutputArchive& archive,
                    const torch::optim::Optimizer& optimizer);
/// The part of that which is no state: the options of each group.
void save_options(torch::serialize::OutputArchive& archive,
                  const torch::optim::Optimizer& optimizer);
/// The opposite of save_options(). Throws InputError as load_optimizer() does.
void load_options(torch::serialize::InputArchive& archive, torch::optim::Optimizer& optimizer);
/// Throws InputError, before anything is changed, for the state of an optimizer of another kind, or
/// with other groups, and where parameters are on several devices.
void load_optimizer(torch::serialize::InputArchive& archive, torch::optim::Optimizer& optimizer);

/// Where the parameters are. Throws InputError where they are on several.
torch::Device device_of(const torch::optim::Optimizer& optimizer);

// libtorch keys an optimizer's state by the parameter's address: as text in some versions, as a
// pointer in others.
template <class States>
auto key_of(const States&, const torch::Tensor& parameter) {
  if constexpr (std::is_same_v<typename States::key_type, std::string>) {
    std::ostringstream text;
    text << parameter.unsafeGetTensorImpl();
    return text.str();
  } else {
    return static_cast<typename States::key_type>(parameter.unsafeGetTensorImpl());
  }
}

/// What an optimizer's step() does first: computes the loss, with gradients, where there is a
/// closure that does.
inline torch::Tensor loss_of(const torch::optim::Optimizer::LossClosure& closure) {
  if (closure == nullptr) return {};
  const torch::AutoGradMode enabled(true);
  return closure();
}

/// The moments of a parameter; zeros before its first step. `State` is libtorch's of Adam or AdamW.
template <class State>
State& adam_state(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter,
                  bool amsgrad) {
  auto& state = optimizer.state()[key_of(optimizer.state(), parameter)];
  if (state == nullptr) {
    auto fresh = std::make_unique<State>();
    fresh->step(0);
    fresh->exp_avg(torch::zeros_like(parameter));
    fresh->exp_avg_sq(torch::zeros_like(parameter));
    if (amsgrad) fresh->max_exp_avg_sq(torch::zeros_like(parameter));
    state = std::move(fresh);
  }
  return static_cast<State&>(*state);
}

}  // namespace sullae
