#include <fmt/format.h>

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

// Those that `optimizer` updates, or, where it updates masters in another precision, the same in number and shapes:
// what is left out would drift apart from rank to rank.
void check_covers(const torch::optim::Optimizer& optimizer,
                  const std::vector<PlannedParameter>& parameters) {
  std::multiset<std::vector<std::int64_t>> updated;
  std::set<const void*> seen;
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) {
      if (parameter.requires_grad() && seen.insert(parameter.unsafeGetTensorImpl()).second)
        updated.insert(parameter.sizes().vec());
    }
  }
  for (const PlannedParameter& parameter : parameters) {
    const auto found = updated.find(parameter.tensor.sizes().vec());
    if (found == updated.end()) {
      throw InputError(fmt::format(
          "DistributedOptimizer: parameter '{}' [{}] is none that the optimizer updates: expected "
          "the parameters that the optimizer was made with, and no others",
          parameter.name, fmt::join(parameter.tensor.sizes(), ", ")));
    }
    updated.erase(found);
  }
  if (updated.empty()) return;
  throw InputError(fmt::format(
      "DistributedOptimizer: the optimizer updates {} more parameter{} (the first [{}]) than were "
      "given, which ranks would change differently: expected all that the optimizer was made with",
      updated.size(), updated.size() == 1 ? "" : "s", fmt::join(*updated.begin(), ", ")));
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
       const DistributedOptimizerOptions& options, World& world)
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
    reducer_ = GradientReducer::make(std::move(planned), options, world);
  }

  void synchronize() { reducer_->synchronize(); }

  void step() {
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
  World& world_;
  std::shared_ptr<GradientReducer> reducer_;
};

DistributedOptimizer::DistributedOptimizer(
    torch::optim::Optimizer& optimizer,
    const torch::OrderedDict<std::string, torch::Tensor>& parameters,
    DistributedOptimizerOptions options, World& world)
    : impl_(std::make_shared<Impl>(optimizer, parameters, options, world)) {}
DistributedOptimizer::~DistributedOptimizer() = default;

void DistributedOptimizer::synchronize() { impl_->synchronize(); }
void DistributedOptimizer::step() { impl_->step(); }
int DistributedOptimizer::join() { return impl_->join(); }
void DistributedOptimizer::zero_grad() { impl_->zero_grad(); }

}  // namespace sullae
