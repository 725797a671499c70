#include <torch/torch.h>

#include "parallel/tensor/parts.h"
#include "sullae/parallel/tensor_parallel.h"

namespace sullae {
namespace {

torch::nn::Linear whole_linear(const auto& options) {
  return torch::nn::Linear(
      torch::nn::LinearOptions(options.in_features, options.out_features).bias(options.bias));
}

}  // namespace

ColumnParallelLinearImpl::ColumnParallelLinearImpl(ColumnParallelLinearOptions options,
                                                   const World& world)
    : options_(options), world_(world) {
  check_one_each(options.out_features, world, "ColumnParallelLinear: out_features");
  const auto whole = whole_linear(options);
  const auto part = even_parameter_part(0, options.out_features, world);
  weight = register_parameter("weight", take_part(whole->weight, part));
  if (options.bias) bias = register_parameter("bias", take_part(whole->bias, part));
}

torch::Tensor ColumnParallelLinearImpl::forward(const torch::Tensor& input) {
  const auto own = torch::linear(copy_to_ranks(input, world_), weight, bias);
  return options_.gather_output ? gather_from_ranks(own, -1, world_) : own;
}

std::map<std::string, ParameterPart> ColumnParallelLinearImpl::parts() const {
  const auto part = even_parameter_part(0, options_.out_features, world_);
  std::map<std::string, ParameterPart> parts{{"weight", part}};
  if (options_.bias) parts["bias"] = part;
  return parts;
}

RowParallelLinearImpl::RowParallelLinearImpl(RowParallelLinearOptions options, const World& world)
    : options_(options), world_(world) {
  check_one_each(options.in_features, world, "RowParallelLinear: in_features");
  const auto whole = whole_linear(options);
  weight = register_parameter(
      "weight", take_part(whole->weight, even_parameter_part(1, options.in_features, world)));
  if (options.bias) bias = register_parameter("bias", whole->bias.detach().clone());
}

torch::Tensor RowParallelLinearImpl::forward(const torch::Tensor& input) {
  const auto own = options_.input_is_parallel ? input : scatter_to_ranks(input, -1, world_);
  // The bias counts once, and not for each rank.
  const auto sum = reduce_from_ranks(torch::linear(own, weight), world_);
  return options_.bias ? sum + bias : sum;
}

std::map<std::string, ParameterPart> RowParallelLinearImpl::parts() const {
  return {{"weight", even_parameter_part(1, options_.in_features, world_)}};
}

}  // namespace sullae
