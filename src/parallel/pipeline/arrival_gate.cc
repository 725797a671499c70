#include "parallel/pipeline/arrival_gate.h"

#include <torch/torch.h>

#include "torch/held.h"

namespace sullae::pipeline {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Gradient = std::shared_ptr<torch::Tensor>;

// A leaf would do, but for layers that work in place. `anchor` is what makes the result have a
// graph.
struct Entry : torch::autograd::Function<Entry> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& /*anchor*/,
                               const torch::Tensor& data, const Gradient& gradient) {
    hold(*context, gradient);
    return data.detach();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    *held<Gradient>(*context) = gradients[0];
    return {torch::Tensor(), torch::Tensor(), torch::Tensor()};
  }
};

}  // namespace

torch::Tensor enter_stage(const torch::Tensor& data, const Gradient& gradient) {
  const auto anchor = torch::empty({0}, torch::TensorOptions().requires_grad(true));
  return Entry::apply(anchor, data, gradient);
}

}  // namespace sullae::pipeline
