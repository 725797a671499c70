#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "sullae/compression.h"
#include "sullae/torch.h"
#include "torch/bucket_plan.h"
#include "torch/gradient_hooks.h"
#include "torch/gradient_reducer.h"
#include "torch/tensor_type.h"

namespace sullae {
namespace {

std::size_t count_parameters(const torch::optim::Optimizer& optimizer) {
  std::size_t count = 0;
  for (const auto& group : optimizer.param_groups()) count += group.params().size();
  return count;
}

// Those that `optimizer` updates, or, where it updates masters in another precision, the same in number and shapes:
// what is left out would drift apart from rank to rank.
void check_covers(const torch::optim::Optimizer& optimizer,
                  const std::vector<PlannedParameter>& parameters) {
  std::vector<torch::Tensor> updated;
  std::set<const void*> seen;
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) {
      if (parameter.requires_grad() && seen.insert(parameter.unsafeGetTensorImpl()).second)
        updated.push_back(parameter);
    }
  }
  std::map<const void*, std::size_t> places;
  for (std::size_t i = 0; i < updated.size(); ++i) places[updated[i].unsafeGetTensorImpl()] = i;
  std::vector<bool> covered(updated.size());
  // Masters, by shape.
  std::multimap<std::vector<std::int64_t>, std::size_t> masters;
  for (std::size_t i = 0; i < updated.size(); ++i) masters.emplace(updated[i].sizes().vec(), i);
  const auto find = [&](const torch::Tensor& parameter) -> std::optional<std::size_t> {
    if (const auto own = places.find(parameter.unsafeGetTensorImpl()); own != places.end())
      return own->second;
    const auto [first, last] = masters.equal_range(parameter.sizes().vec());
    for (auto master = first; master != last; ++master) {
      if (!covered[master->second] &&
          updated[master->second].scalar_type() != parameter.scalar_type())
        return master->second;
    }
    return std::nullopt;
  };
  for (const PlannedParameter& parameter : parameters) {
    const auto found = find(parameter.tensor);
    if (!found) {
      throw InputError(fmt::format(
          "DistributedOptimizer: parameter '{}' [{}] is none that the optimizer updates: expected "
          "the parameters that the optimizer was made with, and no others",
          parameter.name, fmt::join(parameter.tensor.sizes(), ", ")));
    }
    covered[*found] = true;
  }
  const auto left = static_cast<std::size_t>(std::ranges::count(covered, false));
  if (left == 0) return;
  const auto first = static_cast<std::size_t>(std::ranges::find(covered, false) - covered.begin());
  throw InputError(fmt::format(
      "DistributedOptimizer: the optimizer updates {} more parameter{} (the first [{}]) than were "
      "given, which ranks would change differently: expected all that the optimizer was made with",
      left, left == 1 ? "" : "s", fmt::join(updated[first].sizes(), ", ")));
}

void check_options(const DistributedOptimizerOptions& options) {
  if (options.backward_passes_per_step < 1)
    throw InputError("DistributedOptimizer: backward_passes_per_step must be at least 1");
  if (options.op != ReduceOp::average && options.op != ReduceOp::sum &&
      options.op != ReduceOp::adasum) {
    throw InputError(fmt::format("DistributedOptimizer: op is {}, expected average, sum or adasum",
                                 name(options.op)));
  }
  if (options.op == ReduceOp::adasum && !options.compression.empty())
    throw InputError("DistributedOptimizer: adasum does not go with compression");
  make_compression(options.compression);  // throws where there is none of that name
}

void check_belong_to_no_other(const std::vector<PlannedParameter>& parameters) {
  for (const PlannedParameter& parameter : parameters) {
    if (!has_listener(parameter.tensor)) continue;
    throw InputError(fmt::format(
        "DistributedOptimizer: parameter '{}' belongs to another DistributedOptimizer, and its "
        "gradient can be reduced by one alone: put the parameters of both into one optimizer, as "
        "groups",
        parameter.name));
  }
}

}  // namespace

class DistributedOptimizer::Impl {
 public:
  Impl(torch::optim::Optimizer& optimizer,
       const torch::OrderedDict<std::string, torch::Tensor>& parameters,
       const DistributedOptimizerOptions& options, const World& world)
      : optimizer_(optimizer), world_(world) {
    check_options(options);
    std::vector<PlannedParameter> planned;
    std::set<const void*> seen;  // weights that modules share are one parameter under several names
    for (const auto& item : parameters) {
      if (!item.value().requires_grad()) continue;
      if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
      data_type(item.value().scalar_type(), fmt::format("parameter '{}'", item.key()));
      planned.push_back({.name = item.key(), .tensor = item.value()});
    }
    if (world.size() > 1) check_same_parameters(planned, options, world);
    check_covers(optimizer, planned);
    check_belong_to_no_other(planned);
    parameters_ = count_parameters(optimizer);
    reducer_ = GradientReducer::make(std::move(planned), options, world);
  }

  // A world of one has nothing to say, and is the same error.
  void synchronize() {
    if (world_.has_left())
      throw Error(
          "DistributedOptimizer: this rank has left the world that it was made for (shutdown() or "
          "World::leave()): "
          "make it anew after init()");
    reducer_->synchronize();
  }

  void step() {
    if (const auto now = count_parameters(optimizer_); now != parameters_) {
      throw InputError(
          fmt::format("DistributedOptimizer: the optimizer updates {} parameters, but {} when this "
                      "was made, and the gradients of "
                      "others are not reduced: make it after the last add_param_group()",
                      now, parameters_));
    }
    synchronize();
    optimizer_.step();
    reducer_->begin_step();
  }

  // The others see this rank's zeros, and flags that say that it only follows. When nobody steps any
  // more, all are here.
  int join() {
    if (world_.size() == 1) return 0;
    reducer_->set_stepping(false);
    std::int64_t followed = 0;
    for (;; ++followed) {
      zero_grad();
      reducer_->synchronize();
      if (!reducer_->anyone_stepped()) break;
      optimizer_.step();
    }
    reducer_->set_stepping(true);
    zero_grad();
    // The last to join has followed the fewest steps; of several, the highest rank is named.
    std::int64_t last = (followed + 1) * world_.size() - 1 - world_.rank();
    world_.allreduce(&last, &last, 1, DataType::int64, ReduceOp::min);
    return world_.size() - 1 - static_cast<int>(last % world_.size());
  }

  void zero_grad() {
    reducer_->zero_grad();
    for (auto& group : optimizer_.param_groups()) {
      for (auto& parameter : group.params()) parameter.mutable_grad() = torch::Tensor();
    }
  }

 private:
  torch::optim::Optimizer& optimizer_;
  std::size_t parameters_ = 0;  // of the optimizer, when this was made
  World world_;
  std::shared_ptr<GradientReducer> reducer_;
};

DistributedOptimizer::DistributedOptimizer(
    torch::optim::Optimizer& optimizer,
    const torch::OrderedDict<std::string, torch::Tensor>& parameters,
    DistributedOptimizerOptions options, const World& world)
    : impl_(std::make_shared<Impl>(optimizer, parameters, options, world)) {}
DistributedOptimizer::~DistributedOptimizer() = default;

void DistributedOptimizer::synchronize() { impl_->synchronize(); }
void DistributedOptimizer::step() { impl_->step(); }
int DistributedOptimizer::join() { return impl_->join(); }
void DistributedOptimizer::zero_grad() { impl_->zero_grad(); }

}  // namespace sullae
