#include "parallel/units/unit.h"

#include <c10/core/CPUAllocator.h>
#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "collective/counts.h"
#include "parallel/flat.h"
#include "parallel/parameter_store.h"

namespace sullae {
namespace {

c10::Storage storage_without_memory(std::size_t bytes, torch::Device device) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, c10::DataPtr(nullptr, device),
      /*allocator=*/nullptr, /*resizable=*/false));
}

// By type, in the order in which types come.
std::vector<UnitSection> sections_of(const std::vector<PlannedParameter>& parameters) {
  std::vector<UnitSection> sections;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto type = parameters[i].tensor.scalar_type();
    auto found = std::ranges::find(sections, type, &UnitSection::type);
    if (found == sections.end()) found = sections.insert(found, {.type = type});
    found->members.push_back(i);
    found->sizes.push_back(static_cast<std::size_t>(parameters[i].tensor.numel()));
  }
  std::size_t offset = 0;
  for (UnitSection& section : sections) {
    section.starts = starts_of(section.sizes, section.element_bytes());
    section.elements =
        padded_to_lines(section.starts.back() + section.sizes.back(), section.element_bytes());
    section.offset = offset;
    offset += section.bytes();
  }
  return sections;
}

// Its part of one parameter, as the optimizer sees it: detached, since what it shares its memory
// with is another leaf.
torch::Tensor to_update(const torch::Tensor& part, const torch::Tensor& parameter) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(parameter.dim()), 1);
  if (!shape.empty()) shape.back() = part.numel();
  return part.view(shape).detach().set_requires_grad(true);
}

}  // namespace

Unit::Unit(std::string unit_name, std::vector<PlannedParameter> parameters_of_it,
           const std::vector<torch::Tensor>& values, int ranks, int rank)
    : name(std::move(unit_name)),
      parameters(std::move(parameters_of_it)),
      sections(sections_of(parameters)),
      places(parameters.size()),
      present(parameters.size(), 0) {
  const auto own = static_cast<std::size_t>(rank);
  const auto on_device = [&](torch::ScalarType type) {
    return torch::TensorOptions(type).device(device());
  };
  for (std::size_t s = 0; s < sections.size(); ++s) {
    UnitSection& section = sections[s];
    for (std::size_t place = 0; place < section.members.size(); ++place)
      places[section.members[place]] = {.section = s, .place = place};
    section.counts = shard_counts(section.elements, section.element_bytes(), ranks);
    const auto offsets = offsets_of(section.counts);
    section.shard = torch::zeros({length(section.counts[own])}, on_device(section.type));
    section.pieces =
        pieces_of(section.sizes, section.element_bytes(), offsets[own], offsets[own + 1]);
    const auto wide = updated_type(section.type);
    for (const ShardPiece& piece : section.pieces) {
      const std::size_t member = section.members[piece.place];
      const auto part = section.shard.narrow(0, length(piece.at), length(piece.to - piece.from));
      const auto from = range_of(values[member], piece.from, piece.to);
      part.copy_(from);
      section.updated.push_back(to_update(
          wide == section.type ? part : from.to(wide, /*non_blocking=*/false, /*copy=*/true),
          parameters[member].tensor));
    }
  }
  storage_ = storage_without_memory(bytes(), device());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const UnitSection& section = sections[places[i].section];
    const auto start = section.offset / section.element_bytes() + section.starts[places[i].place];
    torch::Tensor& parameter = parameters[i].tensor;
    parameter.set_data(torch::empty({0}, on_device(section.type))
                           .set_(storage_, length(start), parameter.sizes(), parameter.strides()));
  }
}

void Unit::move_to(std::byte* memory) {
  storage_.unsafeGetStorageImpl()->set_data_ptr(c10::DataPtr(memory, device()));
}

torch::Tensor Unit::at(std::byte* memory, torch::Device on, std::size_t parameter) const {
  const UnitSection& section = sections[places[parameter].section];
  const torch::Tensor& like = parameters[parameter].tensor;
  return torch::from_blob(
      memory + section.offset + section.starts[places[parameter].place] * section.element_bytes(),
      like.sizes(), like.strides(), like.options().device(on));
}

torch::Tensor Unit::piece_of(std::size_t parameter) const {
  const UnitSection& section = sections[places[parameter].section];
  const auto piece = std::ranges::find(section.pieces, places[parameter].place, &ShardPiece::place);
  if (piece == section.pieces.end()) return {};
  return section.updated[static_cast<std::size_t>(piece - section.pieces.begin())];
}

void Unit::give_gradients() {
  for (UnitSection& section : sections) {
    for (std::size_t i = 0; i < section.pieces.size() && section.gradient.defined(); ++i) {
      const ShardPiece& piece = section.pieces[i];
      const torch::Tensor& updated = section.updated[i];
      if (present[section.members[piece.place]] == 0) continue;
      torch::Tensor& gradient = updated.mutable_grad();
      const auto more = section.gradient.narrow(0, length(piece.at), updated.numel())
                            .view(updated.sizes())
                            .to(updated.device(), updated.scalar_type());
      if (gradient.defined())
        gradient.add_(more);
      else
        gradient = more;
    }
  }
  forget_gradients();
}

void Unit::forget_gradients() {
  for (UnitSection& section : sections) section.gradient = torch::Tensor();
  std::ranges::fill(present, 0.0F);
}

void Unit::cast_masters() {
  for (UnitSection& section : sections) {
    if (updated_type(section.type) == section.type) continue;
    for (std::size_t i = 0; i < section.pieces.size(); ++i) {
      const ShardPiece& piece = section.pieces[i];
      section.shard.narrow(0, length(piece.at), length(piece.to - piece.from))
          .copy_(section.updated[i].flatten());
    }
  }
}

}  // namespace sullae
