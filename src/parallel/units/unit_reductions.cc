#include "parallel/units/unit_reductions.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "collective/counts.h"
#include "parallel/flat.h"
#include "sullae/adapter.h"
#include "sullae/torch.h"
#include "torch/tensor_type.h"

namespace sullae {
namespace {

// Gradients that are reduced while the unit before computes its own.
constexpr std::size_t kGradientBuffers = 1;

}  // namespace

// Gradients of a unit on their way; what it writes to lives as long as it does.
struct UnitReductions::Reduction {
  Unit& unit;
  GradientBuffers& buffers;
  std::optional<World> replicas;
  std::shared_ptr<std::byte> gradients;
  std::vector<float> present;

  torch::Tensor part_of(Communicator& communicator, const UnitSection& section) const {
    const auto own = static_cast<std::size_t>(communicator.rank());
    torch::Tensor part = torch::empty({length(section.counts[own])}, section.type);
    communicator.reducescatter(gradients.get() + section.offset, part.data_ptr(), section.counts,
                               data_type(section.type, "a unit"), ReduceOp::average);
    return part;
  }

  void run(Communicator& communicator) {
    std::vector<torch::Tensor> parts;  // by section
    try {
      for (const UnitSection& section : unit.sections)
        parts.push_back(part_of(communicator, section));
      communicator.allreduce(present.data(), present.data(), present.size(), DataType::float32,
                             ReduceOp::sum);
      if (replicas) {
        for (torch::Tensor& part : parts) allreduce(part, ReduceOp::average, *replicas);
        replicas->allreduce(present.data(), present.data(), present.size(), DataType::float32);
      }
    } catch (...) {  // rethrown
      buffers.give_back(std::move(gradients));
      throw;
    }
    buffers.give_back(std::move(gradients));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      torch::Tensor& gradient = unit.sections[i].gradient;
      if (gradient.defined())
        gradient.add_(parts[i]);
      else
        gradient = parts[i];
    }
    for (std::size_t i = 0; i < present.size(); ++i) unit.present[i] += present[i];
  }
};

UnitReductions::UnitReductions(const World& world, const std::optional<World>& replicas)
    : world_(world), replicas_(replicas) {}

UnitReductions::~UnitReductions() {
  for (const auto& [handle, reduction] : under_way_) {
    while (!handle.done()) std::this_thread::yield();
  }
}

void UnitReductions::make_buffers(std::size_t most) {
  buffers_.emplace(kGradientBuffers, most, world_);
}

void UnitReductions::start(Unit& unit) {
  const torch::NoGradGuard guard;
  for (const PlannedParameter& parameter : unit.parameters) {
    if (parameter.tensor.grad().defined() && parameter.tensor.grad().is_sparse())
      throw InputError(
          fmt::format("{}: parameter '{}' has a sparse gradient, which is not divided among ranks: "
                      "make the embedding with sparse(false)",
                      kUnits, parameter.name));
  }
  auto reduction = std::make_shared<Reduction>(Reduction{
      .unit = unit, .buffers = *buffers_, .replicas = replicas_, .gradients = buffers_->take()});
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    torch::Tensor& gradient = unit.parameters[i].tensor.mutable_grad();
    torch::Tensor to = unit.at(reduction->gradients.get(), i);
    if (gradient.defined())
      to.copy_(gradient);
    else
      to.zero_();
    reduction->present.push_back(gradient.defined() ? 1.0F : 0.0F);
    gradient = torch::Tensor();
  }
  buffers_->starts();
  under_way_.emplace_back(
      AdapterView(world_).submit(
          [reduction](Communicator& communicator) { reduction->run(communicator); },
          {.name = fmt::format("gradients of unit {}", unit.name), .bytes = unit.bytes()}),
      reduction);
}

void UnitReductions::wait() {
  std::exception_ptr first;
  for (const auto& [handle, reduction] : std::exchange(under_way_, {})) {
    try {
      handle.wait();
    } catch (const std::exception&) {  // rethrown when all have ended
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace sullae
