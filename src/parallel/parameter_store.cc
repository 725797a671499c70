#include "parallel/parameter_store.h"

#include <fmt/format.h>

#include "collective/counts.h"
#include "parallel/flat.h"
#include "parallel/parameter_shards.h"
#include "sullae/error.h"
#include "torch/tensor_checks.h"

namespace sullae {

std::vector<Part> parts_at(std::size_t place, const std::vector<std::size_t>& sizes,
                           std::size_t element_bytes, const std::vector<std::size_t>& counts) {
  const auto offsets = offsets_of(counts);
  std::vector<Part> parts;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    for (const ShardPiece& piece :
         pieces_of(sizes, element_bytes, offsets[rank], offsets[rank + 1])) {
      if (piece.place == place)
        parts.push_back({.rank = static_cast<int>(rank), .from = piece.from, .to = piece.to});
    }
  }
  return parts;
}

torch::OrderedDict<std::string, torch::Tensor> ParameterStore::pieces() const {
  torch::OrderedDict<std::string, torch::Tensor> found;
  for (std::size_t i = 0; i < all().size(); ++i) {
    if (piece_of(i).defined()) found.insert(all()[i].name, piece_of(i));
  }
  return found;
}

void check_one_device(const PlannedParameter& one, const PlannedParameter& other, const char* who) {
  const torch::Device first = one.tensor.device();
  const torch::Device second = other.tensor.device();
  if (first == second) return;
  throw InputError(fmt::format("{}: parameter '{}' is on {}, and '{}' on {}: expected one device",
                               who, one.name, first.str(), other.name, second.str()));
}

void check_divisible_parameters(const std::vector<PlannedParameter>& parameters, const char* who) {
  for (const PlannedParameter& parameter : parameters) {
    if (!parameter.tensor.is_floating_point())
      throw InputError(fmt::format("{}: parameter '{}' is {}, expected floating-point numbers", who,
                                   parameter.name, c10::toString(parameter.tensor.scalar_type())));
    const torch::Device device = parameter.tensor.device();
    if (!device.is_cpu() && !device.is_cuda())
      throw InputError(
          fmt::format("{}: parameter '{}' is on {}, expected it in host memory or on a GPU", who,
                      parameter.name, device.str()));
    check_one_device(parameters.front(), parameter, who);
    if (!parameter.tensor.is_non_overlapping_and_dense())
      throw InputError(fmt::format("{}: parameter '{}' is a view with gaps", who, parameter.name));
  }
}

void copy_parts(const ParameterStore& store, std::size_t parameter, const torch::Tensor& whole) {
  const torch::Tensor outline = store.outline_of(parameter);
  if (whole.sizes() != outline.sizes())
    throw InputError(fmt::format("take_weights: '{}' is {}, expected {} as the parameter",
                                 store.all()[parameter].name, shape_of(whole), shape_of(outline)));
  torch::Tensor laid_out = whole;
  if (whole.strides() != outline.strides())
    laid_out =
        torch::empty_strided(outline.sizes(), outline.strides(), whole.options()).copy_(whole);
  for (const Part& part : store.parts_of(parameter)) {
    if (part.rank == store.world().rank())
      flat_of(store.piece_of(parameter)).copy_(range_of(laid_out, part.from, part.to));
  }
}

}  // namespace sullae
