#include "parallel/alone.h"

#include "parallel/parameter_store.h"

namespace sullae {

torch::Tensor updated_alone(const torch::Tensor& parameter, const torch::Tensor& value) {
  const auto type = updated_type(parameter.scalar_type());
  return type == parameter.scalar_type() ? parameter
                                         : value.detach().to(type).set_requires_grad(true);
}

void give_gradients_alone(const std::vector<PlannedParameter>& parameters,
                          const std::vector<torch::Tensor>& updated) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    torch::Tensor& gradient = parameters[i].tensor.mutable_grad();
    if (!updated[i].defined() || updated[i].is_same(parameters[i].tensor) || !gradient.defined())
      continue;
    updated[i].mutable_grad() = gradient.to(updated[i].scalar_type());
    gradient = torch::Tensor();
  }
}

void publish_alone(const std::vector<PlannedParameter>& parameters,
                   const std::vector<torch::Tensor>& updated) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (updated[i].defined() && !updated[i].is_same(parameters[i].tensor))
      parameters[i].tensor.detach().copy_(updated[i]);
  }
}

}  // namespace sullae
