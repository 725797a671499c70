#include "parallel/tensor/parts.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <vector>

#include "parallel/ranges.h"

namespace sullae {

ParameterPart even_parameter_part(std::int64_t dim, std::int64_t whole, const World& world) {
  return {.dim = dim, .whole = whole, .ranges = {even_part(whole, world.size(), world.rank())}};
}

ParameterPart heads_part(std::int64_t dim, int times, std::int64_t size, std::int64_t heads,
                         const World& world) {
  const IndexRange own = even_part(heads, world.size(), world.rank());
  const std::int64_t head = size / heads;
  ParameterPart part{.dim = dim, .whole = times * size};
  for (std::int64_t start = 0; start < part.whole; start += size)
    part.ranges.push_back({start + own.from * head, start + own.to * head});
  return part;
}

const ParameterPart* find_part(const std::map<std::string, ParameterPart>& parts,
                               const std::string& name) {
  const auto found = parts.find(name);
  return found == parts.end() ? nullptr : &found->second;
}

std::vector<std::int64_t> whole_shape(const torch::Tensor& own, const ParameterPart* part) {
  auto shape = own.sizes().vec();
  if (part != nullptr) shape[static_cast<std::size_t>(part->dim)] = part->whole;
  return shape;
}

// Of which each rank has as many as the others.
std::vector<std::pair<IndexRange, int>> ranges_of_all(const ParameterPart& part,
                                                      const World& world) {
  std::vector<std::int64_t> own;
  for (const auto& [from, to] : part.ranges) own.insert(own.end(), {from, to});
  std::vector<std::int64_t> all(own.size() * static_cast<std::size_t>(world.size()));
  world.allgather(own.data(), all.data(), own.size(), DataType::int64);
  std::vector<std::pair<IndexRange, int>> ranges;
  for (std::size_t i = 0; i < all.size(); i += 2)
    ranges.push_back({{all[i], all[i + 1]}, static_cast<int>(i / own.size())});
  return ranges;
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
