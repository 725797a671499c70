// Anything in what autograd keeps from forward to backward.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace sullae {

template <class T>
struct Held : torch::CustomClassHolder {
  explicit Held(T kept) : value(std::move(kept)) {}
  T value;
};

/// One value a context. What backward needs outlives whoever called forward.
template <class T>
void hold(torch::autograd::AutogradContext& context, T value) {
  context.saved_data["held"] =
      c10::IValue::make_capsule(c10::make_intrusive<Held<T>>(std::move(value)));
}

template <class T>
T held(const torch::autograd::AutogradContext& context) {
  return static_cast<const Held<T>&>(*context.saved_data.at("held").toCapsule()).value;
}

}  // namespace sullae
