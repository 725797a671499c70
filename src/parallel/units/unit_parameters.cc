#include "parallel/units/unit_parameters.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "base/interruption.h"
#include "parallel/alone.h"
#include "parallel/flat.h"
#include "parallel/malloc_limits.h"
#include "parallel/named_state.h"
#include "sullae/adapter.h"
#include "sullae/torch.h"
#include "torch/agreement.h"
#include "torch/trained_parameters.h"

namespace sullae {
namespace {

constexpr const char* kWho = kUnits;
// A unit that runs, and the next.
constexpr std::size_t kBuffers = 2;

void check_unit(const std::vector<PlannedParameter>& parameters, const std::string& name,
                const std::set<const void*>& seen) {
  if (parameters.empty())
    throw InputError(
        fmt::format("{}: unit '{}' has no parameter that requires gradients", kWho, name));
  check_divisible_parameters(parameters, kWho);
  for (const PlannedParameter& parameter : parameters) {
    if (seen.contains(parameter.tensor.unsafeGetTensorImpl()))
      throw InputError(fmt::format(
          "{}: parameter '{}' belongs to another unit already: expected units that share none",
          kWho, parameter.name));
  }
}

}  // namespace

UnitParameters::UnitParameters(const World& world, const std::optional<World>& replicas,
                               ShardedUnitsOptions options)
    : world_(world),
      replicas_(replicas && replicas->size() > 1 ? std::optional(own_world_like(*replicas))
                                                 : std::nullopt),
      options_(options),
      reductions_(world_, replicas_) {}

UnitParameters::~UnitParameters() = default;

void UnitParameters::give_to_optimizer() {
  if (all_.empty())
    throw InputError(fmt::format("{}: no units: expected shard() before the optimizer", kWho));
  if (has_optimizer_)
    throw InputError(fmt::format("{}: another optimizer updates these units", kWho));
  has_optimizer_ = true;
  closed_ = true;
}

// Those that require gradients, of all. What is wrong on one rank is so on all, which would wait
// for it.
std::vector<PlannedParameter> UnitParameters::checked(
    const torch::OrderedDict<std::string, torch::Tensor>& all, const std::string& name) {
  TrainedParameters found;
  std::string problem;
  try {
    if (closed_)
      throw InputError(fmt::format(
          "{}: unit '{}' comes after a unit ran, or the optimizer was made", kWho, name));
    found = trained_of(all, kWho);
    check_unit(found.trained, name, seen_);
    if (!all_.empty()) check_one_device(all_.front(), found.trained.front(), kWho);
  } catch (const InputError& error) {
    problem = error.what();
  }
  throw_on_all(world_, problem);
  if (!alone()) {
    const auto device = found.trained.front().tensor.device().type();
    check_same_parameters(
        found.trained,
        fmt::format("unit {} device={}", name, c10::DeviceTypeName(device, /*lower_case=*/true)),
        world_, kWho);
  }
  frozen_.insert(frozen_.end(), found.frozen.begin(), found.frozen.end());
  return std::move(found.trained);
}

void UnitParameters::start_equal(const torch::nn::Module& module) const {
  const torch::NoGradGuard guard;
  const auto take_first = [&](torch::Tensor values) {
    if (replicas_) broadcast(values, 0, *replicas_);
    broadcast(values, 0, world_);
  };
  for (const torch::Tensor& parameter : module.parameters()) take_first(parameter.detach());
  for (const torch::Tensor& buffer : module.buffers()) take_first(buffer);
}

std::size_t UnitParameters::add(torch::nn::Module& module, const std::string& name) {
  torch::OrderedDict<std::string, torch::Tensor> named;
  for (const auto& item : each_once(module.named_parameters()))
    named.insert(name_in(name, item.key()), item.value());
  auto parameters = checked(named, name);
  for (const auto& item : module.named_buffers())
    others_.push_back({NamedState::Kind::buffer, name_in(name, item.key()), item.value()});
  const std::size_t number = residences_.size();
  residences_.emplace_back();
  expected_.push_back(0);
  if (!alone()) {
    limit_malloc();
    start_equal(module);
  }
  std::vector<torch::Tensor> values;  // as they are before they are cast
  for (const PlannedParameter& parameter : parameters) values.push_back(parameter.tensor.detach());
  if (options_.type) cast_to_16_bits(module, *options_.type);
  const torch::NoGradGuard guard;
  if (!alone())
    units_.push_back(
        std::make_unique<Unit>(name, parameters, values, world_.size(), world_.rank()));
  // Where a rank is alone, what is updated are the parameters themselves, or their masters.
  std::size_t next = 0;
  for (const auto& item : named) {
    const bool is_trained =
        next < parameters.size() && parameters[next].tensor.is_same(item.value());
    // One that has gaps, or is another unit's, too, goes as buffers do.
    const bool is_new = seen_.insert(item.value().unsafeGetTensorImpl()).second;
    if (!is_trained && (!is_new || !item.value().is_non_overlapping_and_dense())) {
      others_.push_back({NamedState::Kind::parameter, item.key(), item.value()});
      continue;
    }
    all_.push_back(is_trained ? parameters[next]
                              : PlannedParameter{.name = item.key(), .tensor = item.value()});
    places_.push_back(is_trained ? std::optional(std::pair(number, next)) : std::nullopt);
    if (!is_trained)
      pieces_.emplace_back();
    else if (alone())
      pieces_.push_back(updated_alone(parameters[next].tensor, values[next]));
    else
      pieces_.push_back(units_.back()->piece_of(next));
    if (is_trained) ++next;
  }
  return number;
}

void UnitParameters::make_buffers() {
  if (exchange_) return;
  auto exchange = std::make_unique<ShardExchange>(world_, units_.front()->device());
  std::size_t largest = 0;
  for (const auto& unit : units_) largest = std::max(largest, unit->bytes());
  std::vector<WholeMemory> made;
  for (std::size_t i = 0; i < kBuffers; ++i) made.push_back(exchange->allocate(largest));
  reductions_.make_buffers(*exchange, largest);
  free_ = std::move(made);
  exchange_ = std::move(exchange);
}

void UnitParameters::start_gather(std::size_t unit, WholeMemory memory, bool shared) {
  const Unit& one = *units_[unit];
  memory.bytes = one.bytes();
  std::vector<ShardRange> ranges;
  for (const UnitSection& section : one.sections)
    ranges.push_back({.shard = section.shard, .counts = &section.counts, .offset = section.offset});
  try {
    auto arrival = exchange_->gather(memory, std::move(ranges),
                                     fmt::format("parameters of unit '{}'", one.name));
    residences_[unit].emplace(
        Residence{.memory = memory, .shared = shared, .arrival = std::move(arrival)});
  } catch (...) {  // rethrown
    if (shared) free_.push_back(std::move(memory));
    throw;
  }
}

void UnitParameters::gather(std::size_t unit, bool learns) {
  closed_ = true;
  if (alone()) return;
  make_buffers();
  if (learns) order_.runs(unit);
  const auto take = [&] {
    auto memory = std::move(free_.back());
    free_.pop_back();
    return memory;
  };
  if (!residences_[unit]) {
    if (!free_.empty()) {
      start_gather(unit, take(), true);
    } else {
      start_gather(unit, exchange_->allocate_alone(units_[unit]->bytes()), false);
    }
  }
  try {
    residences_[unit]->arrival.wait();
  } catch (const MismatchError&) {  // rethrown: the world goes on, and may be asked again
    drop(unit);
    throw;
  }
  units_[unit]->move_to(residences_[unit]->memory.here.get());
  const auto next = learns ? order_.next() : std::nullopt;
  if (next && !residences_[*next] && !free_.empty()) start_gather(*next, take(), true);
}

// What is under way ends before its memory is another's.
void UnitParameters::drop(std::size_t unit) {
  if (!residences_[unit]) return;
  units_[unit]->move_to(nullptr);
  const auto memory = std::move(residences_[unit]->memory);
  const bool shared = residences_[unit]->shared;
  residences_[unit].reset();
  if (shared) free_.push_back(memory);
}

void UnitParameters::drop_all() {
  for (std::size_t unit = 0; unit < residences_.size(); ++unit) drop(unit);
}

void UnitParameters::release(std::size_t unit) {
  // The last unit of forward is the first of backward.
  if (!alone() && order_.next() != unit) drop(unit);
}

void UnitParameters::finish_backward(std::size_t unit) {
  if (alone()) return;
  // Gradients of parameters come with those of the last run.
  if (--expected_[unit] == 0) reductions_.start(*units_[unit]);
  release(unit);
}

bool UnitParameters::is_whole(std::size_t parameter) const {
  return !is_trained(parameter) || (alone() && pieces_[parameter].is_same(all_[parameter].tensor));
}

std::vector<Part> UnitParameters::parts_of(std::size_t parameter) const {
  if (alone() || !is_trained(parameter)) return of_first(all_[parameter].tensor);
  const auto& [number, member] = *places_[parameter];
  const auto& [section, place] = units_[number]->places[member];
  const UnitSection& one = units_[number]->sections[section];
  return parts_at(place, one.sizes, one.element_bytes(), one.counts);
}

void UnitParameters::reduce() {
  const torch::NoGradGuard guard;
  check_still_frozen(frozen_, kWho);
  std::ranges::fill(expected_, 0);
  if (alone()) return give_gradients_alone(all_, pieces_);
  make_buffers();
  // Those whose input needs no gradient: backward ended with them.
  std::vector<std::uint8_t> left;
  for (const auto& unit : units_)
    left.push_back(std::ranges::any_of(
        unit->parameters, [](const auto& parameter) { return parameter.tensor.grad().defined(); }));
  // Behind reductions that are under way: nobody calls two collectives of the replicas at a time.
  const Interruptible by_nothing(nullptr);  // what is submitted uses this frame
  AdapterView(world_)
      .submit(
          [&](Communicator& communicator) {
            communicator.allreduce(left.data(), left.data(), left.size(), DataType::uint8,
                                   ReduceOp::max);
            if (replicas_)
              replicas_->allreduce(left.data(), left.data(), left.size(), DataType::uint8,
                                   ReduceOp::max);
          },
          {.name = "units whose gradients are left"})
      .wait();
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (left[i] != 0) reductions_.start(*units_[i]);
  }
  reductions_.wait();
  exchange_->check();
  drop_all();
  for (const auto& unit : units_) unit->give_gradients();
}

void UnitParameters::clear_gradients() {
  reductions_.wait();
  for (const auto& unit : units_) unit->forget_gradients();
  for (const PlannedParameter& parameter : all_) parameter.tensor.mutable_grad() = torch::Tensor();
  for (const torch::Tensor& piece : pieces_) {
    if (piece.defined()) piece.mutable_grad() = torch::Tensor();
  }
}

void UnitParameters::publish() {
  const torch::NoGradGuard guard;
  if (alone()) return publish_alone(all_, pieces_);
  drop_all();
  renew();
  order_.step_ended();
}

// Parameters are what was updated by now; what was computed with the old values is not to be
// computed backward with these.
void UnitParameters::renew() {
  for (const auto& unit : units_) unit->cast_masters();
  for (const PlannedParameter& parameter : all_)
    parameter.tensor.unsafeGetTensorImpl()->bump_version();
}

void UnitParameters::take_weights(const torch::OrderedDict<std::string, torch::Tensor>& weights) {
  const torch::NoGradGuard guard;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const torch::Tensor* const whole = weights.find(all_[i].name);
    if (whole != nullptr) copy_parts(*this, i, *whole);
  }
  refresh();
}

void UnitParameters::refresh() {
  const torch::NoGradGuard guard;
  if (alone()) return publish_alone(all_, pieces_);
  drop_all();
  renew();
}

}  // namespace sullae
