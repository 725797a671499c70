#include "parallel/units/unit.h"

#include <c10/core/CPUAllocator.h>
#include <torch/torch.h>

#include <utility>

#include "collective/counts.h"
#include "parallel/flat.h"
#include "parallel/parameter_store.h"

namespace sullae {
namespace {

std::size_t aligned_end(const std::vector<std::size_t>& starts,
                        const std::vector<std::size_t>& sizes, std::size_t element_bytes) {
  return padded_to_lines(starts.back() + sizes.back(), element_bytes);
}

c10::Storage storage_without_memory(std::size_t bytes) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, c10::DataPtr(nullptr, c10::kCPU),
      /*allocator=*/nullptr, /*resizable=*/false));
}

}  // namespace

Unit::Unit(std::string unit_name, std::vector<PlannedParameter> parameters_of_it, int ranks,
           int rank)
    : name(std::move(unit_name)),
      parameters(std::move(parameters_of_it)),
      type(parameters.front().tensor.scalar_type()),
      present(parameters.size(), 0) {
  for (const PlannedParameter& parameter : parameters)
    sizes.push_back(static_cast<std::size_t>(parameter.tensor.numel()));
  starts = starts_of(sizes, element_bytes());
  elements = aligned_end(starts, sizes, element_bytes());
  counts = shard_counts(elements, element_bytes(), ranks);
  const auto offsets = offsets_of(counts);
  const auto own = static_cast<std::size_t>(rank);
  shard = torch::zeros({length(counts[own])}, type);
  pieces = pieces_of(sizes, element_bytes(), offsets[own], offsets[own + 1]);
  for (const ShardPiece& piece : pieces) {
    const torch::Tensor& parameter = parameters[piece.place].tensor;
    const auto part = shard.narrow(0, length(piece.at), length(piece.to - piece.from));
    part.copy_(range_of(parameter, piece.from, piece.to));
    std::vector<std::int64_t> shape(static_cast<std::size_t>(parameter.dim()), 1);
    if (!shape.empty()) shape.back() = length(piece.to - piece.from);
    // Detached: what it shares its memory with is another leaf.
    updated.push_back(part.view(shape).detach().to(updated_type(type)).set_requires_grad(true));
  }
  storage_ = storage_without_memory(bytes());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    torch::Tensor& parameter = parameters[i].tensor;
    parameter.set_data(torch::empty({0}, type).set_(storage_, length(starts[i]), parameter.sizes(),
                                                    parameter.strides()));
  }
}

void Unit::move_to(std::byte* memory) {
  storage_.unsafeGetStorageImpl()->set_data_ptr(c10::DataPtr(memory, c10::kCPU));
}

torch::Tensor Unit::at(std::byte* memory, std::size_t parameter) const {
  const torch::Tensor& like = parameters[parameter].tensor;
  return torch::from_blob(memory + starts[parameter] * element_bytes(), like.sizes(),
                          like.strides(), like.options());
}

}  // namespace sullae
