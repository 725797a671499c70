#include "parallel/tensor/parts.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <vector>

#include "parallel/ranges.h"

namespace sullae {

ParameterPart even_parameter_part(std::int64_t dim, std::int64_t whole, const World& world) {
  const IndexRange range = even_part(whole, world.size(), world.rank());
  return {.dim = dim, .whole = whole, .ranges = {{range.from, range.to}}};
}

torch::Tensor take_part(const torch::Tensor& whole, const ParameterPart& part) {
  std::vector<torch::Tensor> pieces;
  for (const auto& [from, to] : part.ranges)
    pieces.push_back(whole.narrow(part.dim, from, to - from));
  return torch::cat(pieces, part.dim).detach().contiguous();
}

void check_divisible(std::int64_t size, const World& world, const char* what) {
  if (size < world.size())
    throw InputError(
        fmt::format("{}: {} for {} ranks: expected at least one a rank", what, size, world.size()));
}

}  // namespace sullae
