#include "parallel/units/unit_reductions.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/flat.h"
#include "sullae/adapter.h"
#include "sullae/torch.h"

namespace sullae {
namespace {

// Gradients that are reduced while the unit before computes its own. On a GPU another unit's are
// copied meanwhile.
constexpr std::size_t kGradientBuffers = 1;
constexpr std::size_t kGradientBuffersInStream = 2;

}  // namespace

// Gradients of a unit on their way; what it writes to lives as long as it does.
struct UnitReductions::Reduction {
  Unit& unit;
  GradientBuffers& buffers;
  std::optional<World> replicas;
  std::shared_ptr<std::byte> gradients;
  bool in_stream = false;
  std::vector<float> present = {};
  std::vector<torch::Tensor> parts =
      {};  // by section: this rank's, of the sums; until they are the unit's
  std::shared_ptr<const DeviceTurn> turn = nullptr;

  ~Reduction() {
    if (turn) turn->settle();
  }

  std::vector<ShardRange> ranges() const {
    std::vector<ShardRange> found;
    for (std::size_t i = 0; i < parts.size(); ++i)
      found.push_back({.shard = parts[i],
                       .counts = &unit.sections[i].counts,
                       .offset = unit.sections[i].offset});
    return found;
  }

  // In the engine: all of it, or, where the GPU does the rest, what tells of ranks that are gone.
  void run(Communicator& communicator) {
    if (in_stream) return count(communicator);
    try {
      ShardExchange::reduce(communicator, gradients.get(), ranges(), ReduceOp::average);
      count(communicator);
      if (replicas) {
        for (torch::Tensor& part : parts) allreduce(part, ReduceOp::average, *replicas);
      }
    } catch (...) {  // rethrown
      buffers.give_back(std::move(gradients));
      throw;
    }
    buffers.give_back(std::move(gradients));
    add_parts();
    add_present();
  }

  // Of those who have a gradient.
  void count(Communicator& communicator) {
    communicator.allreduce(present.data(), present.data(), present.size(), DataType::float32,
                           ReduceOp::sum);
    if (replicas)
      replicas->allreduce(present.data(), present.data(), present.size(), DataType::float32);
  }

  void add_parts() {
    if (turn) turn->await();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      torch::Tensor& gradient = unit.sections[i].gradient;
      if (gradient.defined())
        gradient.add_(parts[i]);
      else
        gradient = parts[i];
    }
    parts.clear();
  }

  void add_present() {
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

void UnitReductions::make_buffers(const ShardExchange& exchange, std::size_t most) {
  buffers_.emplace(exchange.is_in_stream() ? kGradientBuffersInStream : kGradientBuffers, most,
                   world_, exchange);
  exchange_ = &exchange;
}

void UnitReductions::start(Unit& unit) {
  const torch::NoGradGuard guard;
  // What an earlier backward of this step has made of the unit's is one with the rest, so that
  // parts do not pile up.
  for (const auto& [handle, earlier] : under_way_) {
    if (earlier->in_stream && &earlier->unit == &unit) earlier->add_parts();
  }
  for (const PlannedParameter& parameter : unit.parameters) {
    if (parameter.tensor.grad().defined() && parameter.tensor.grad().is_sparse())
      throw InputError(
          fmt::format("{}: parameter '{}' has a sparse gradient, which is not divided among ranks: "
                      "make the embedding with sparse(false)",
                      kUnits, parameter.name));
  }
  auto reduction = std::make_shared<Reduction>(Reduction{.unit = unit,
                                                         .buffers = *buffers_,
                                                         .replicas = replicas_,
                                                         .gradients = buffers_->take(unit.bytes()),
                                                         .in_stream = exchange_->is_in_stream()});
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    torch::Tensor& gradient = unit.parameters[i].tensor.mutable_grad();
    torch::Tensor to = unit.at(reduction->gradients.get(), exchange_->reduces_on(), i);
    if (gradient.defined())
      to.copy_(gradient);
    else
      to.zero_();
    reduction->present.push_back(gradient.defined() ? 1.0F : 0.0F);
    gradient = torch::Tensor();
  }
  const auto own = static_cast<std::size_t>(world_.rank());
  for (const UnitSection& section : unit.sections)
    reduction->parts.push_back(
        torch::empty({length(section.counts[own])},
                     torch::TensorOptions(section.type).device(exchange_->reduces_on())));
  if (exchange_->is_in_stream()) {
    reduction->turn =
        exchange_->start_reduce(reduction->gradients.get(), reduction->ranges(), ReduceOp::average);
    buffers_->let_go(std::move(reduction->gradients), reduction->turn);
  } else {
    buffers_->starts();
  }
  under_way_.emplace_back(
      AdapterView(world_).submit(
          [reduction](Communicator& communicator) { reduction->run(communicator); },
          {.name = fmt::format("gradients of unit {}", unit.name), .bytes = unit.bytes()}),
      reduction);
}

void UnitReductions::wait() {
  const torch::NoGradGuard guard;
  std::exception_ptr first;
  const auto all = std::exchange(under_way_, {});
  for (const auto& [handle, reduction] : all) {
    try {
      handle.wait();
    } catch (const std::exception&) {  // rethrown when all have ended
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
  std::vector<Unit*> reduced;  // in the order in which all ranks have them
  for (const auto& [handle, reduction] : all) {
    if (!reduction->in_stream) continue;
    reduction->add_parts();
    reduction->add_present();
    if (std::ranges::find(reduced, &reduction->unit) == reduced.end())
      reduced.push_back(&reduction->unit);
  }
  if (!replicas_) return;
  // Behind all that the engine asks of the replicas: nobody calls two of their collectives at a
  // time.
  for (const Unit* const unit : reduced) {
    for (const UnitSection& section : unit->sections) {
      torch::Tensor gradient = section.gradient;
      allreduce(gradient, ReduceOp::average, *replicas_);
    }
  }
}

}  // namespace sullae
