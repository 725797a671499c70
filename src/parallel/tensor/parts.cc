#include "parallel/tensor/parts.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <vector>

#include "parallel/ranges.h"

namespace sullae {

ParameterPart even_parameter_part(std::int64_t dim, std::int64_t whole, const World& world) {
  return {.dim = dim, .whole = whole, .ranges = {even_part(whole, world.size(), world.rank())}};
}

torch::Tensor take_part(const torch::Tensor& whole, const ParameterPart& part) {
  std::vector<torch::Tensor> pieces;
  for (const auto& [from, to] : part.ranges)
    pieces.push_back(whole.narrow(part.dim, from, to - from));
  return torch::cat(pieces, part.dim).detach().contiguous();
}

void check_one_each(std::int64_t size, const World& world, const char* what) {
  if (size < world.size())
    throw InputError(
        fmt::format("{}: {} for {} ranks: expected at least one a rank", what, size, world.size()));
}

void check_indices(const torch::Tensor& indices, std::int64_t size, const char* what) {
  const auto wrong = indices.lt(0).logical_or(indices.ge(size));
  if (wrong.any().item<bool>())
    throw InputError(fmt::format("{} {}: expected 0 to {}", what,
                                 indices.masked_select(wrong)[0].item<std::int64_t>(), size - 1));
}

}  // namespace sullae
