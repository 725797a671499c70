#include <fmt/format.h>
#include <torch/torch.h>

#include <functional>

#include "parallel/gradient_norm.h"
#include "parallel/tensor/parts.h"
#include "sullae/parallel/tensor_parallel.h"
#include "sullae/torch.h"

namespace sullae {
namespace {

torch::Tensor gather_whole(const torch::Tensor& own, const ParameterPart& part,
                           const World& world) {
  const auto pieces = allgather(own.transpose(0, part.dim), world).transpose(0, part.dim);
  auto whole = torch::empty(whole_shape(own, &part), own.options());
  std::int64_t at = 0;
  for (const auto& [range, rank] : ranges_of_all(part, world)) {
    const std::int64_t size = range.to - range.from;
    whole.narrow(part.dim, range.from, size).copy_(pieces.narrow(part.dim, at, size));
    at += size;
  }
  return whole;
}

template <class Visit>
void for_each_layer(const torch::nn::Module& module, const Visit& visit) {
  const std::function<void(const std::string&, const torch::nn::Module&)> visit_layer =
      [&](const std::string& name, const torch::nn::Module& one) {
        const auto* const layer = dynamic_cast<const TensorParallelLayer*>(&one);
        if (layer != nullptr) visit(name, *layer);
      };
  module.apply(visit_layer);
}

}  // namespace

std::map<std::string, ParameterPart> parts_of(const torch::nn::Module& module) {
  std::map<std::string, ParameterPart> all;
  for_each_layer(module, [&](const std::string& name, const TensorParallelLayer& layer) {
    const std::string prefix = name.empty() ? "" : name + '.';
    for (auto& [own, part] : layer.parts()) all[prefix + own] = part;
  });
  return all;
}

std::optional<World> world_of_parts(const torch::nn::Module& module) {
  std::optional<World> ranks;
  for_each_layer(module, [&](const std::string& name, const TensorParallelLayer& layer) {
    if (layer.ranks() == nullptr) return;
    if (ranks && *ranks != *layer.ranks())
      throw InputError(
          fmt::format("layer '{}': other ranks have its parts than those of layers before: "
                      "expected one world",
                      name));
    ranks = *layer.ranks();
  });
  return ranks;
}

std::map<std::string, torch::Tensor> gather_parameters(const torch::nn::Module& module,
                                                       const World& world) {
  const torch::NoGradGuard guard;
  const auto parts = parts_of(module);
  std::map<std::string, torch::Tensor> whole;
  for (const auto& item : module.named_parameters()) {
    const ParameterPart* const part = find_part(parts, item.key());
    const auto own = item.value().detach();
    whole[item.key()] = part == nullptr ? own.clone() : gather_whole(own, *part, world);
  }
  return whole;
}

void load_parameters(torch::nn::Module& module, const std::map<std::string, torch::Tensor>& whole) {
  const torch::NoGradGuard guard;
  const auto parts = parts_of(module);
  const auto parameters = module.named_parameters();
  for (const auto& item : parameters) {
    const auto found = whole.find(item.key());
    if (found == whole.end())
      throw InputError(fmt::format("load_parameters: there is no '{}'", item.key()));
    const auto expected = whole_shape(item.value(), find_part(parts, item.key()));
    if (found->second.sizes() != torch::IntArrayRef(expected))
      throw InputError(fmt::format("load_parameters: '{}' has shape [{}], expected [{}]",
                                   item.key(), fmt::join(found->second.sizes(), ", "),
                                   fmt::join(expected, ", ")));
  }
  for (const auto& item : parameters) {
    const ParameterPart* const part = find_part(parts, item.key());
    const torch::Tensor& value = whole.at(item.key());
    torch::Tensor own = item.value();
    own.copy_(part == nullptr ? value : take_part(value, *part));
  }
}

double clip_grad_norm(torch::nn::Module& module, double max_norm, const World& world,
                      const std::map<std::string, torch::Tensor>& masters) {
  const auto trained = with_masters(module.named_parameters(), masters);
  const double squares = own_squares(trained, parts_of(module), world.rank() == 0);
  return clip_to_norm(trained, squares, max_norm, world);
}

}  // namespace sullae
