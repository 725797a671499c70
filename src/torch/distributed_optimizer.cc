#include <fmt/format.h>
#include <torch/optim/lbfgs.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sullae/torch.h"

namespace sullae {
namespace {

std::size_t count_parameters(const torch::optim::Optimizer& optimizer) {
  std::size_t count = 0;
  for (const auto& group : optimizer.param_groups()) count += group.params().size();
  return count;
}

// Those that `optimizer` updates, or, where it updates masters in another precision, the same in
// number and shapes: what is left out would drift apart from rank to rank.
void check_covers(const torch::optim::Optimizer& optimizer,
                  const torch::OrderedDict<std::string, torch::Tensor>& parameters) {
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
  seen.clear();  // weights that modules share are one parameter under several names
  for (const auto& item : parameters) {
    const torch::Tensor& parameter = item.value();
    if (!parameter.requires_grad() || !seen.insert(parameter.unsafeGetTensorImpl()).second)
      continue;
    const auto found = find(parameter);
    if (!found) {
      throw InputError(fmt::format(
          "DistributedOptimizer: parameter '{}' [{}] is none that the optimizer updates: expected "
          "the parameters that the optimizer was made with, and no others",
          item.key(), fmt::join(parameter.sizes(), ", ")));
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

}  // namespace

class DistributedOptimizer::Impl {
 public:
  Impl(torch::optim::Optimizer& optimizer,
       const torch::OrderedDict<std::string, torch::Tensor>& parameters,
       const DistributedOptimizerOptions& options, const World& world)
      : optimizer_(optimizer),
        world_(world),
        op_(options.op),
        parameters_(count_parameters(optimizer)),
        given_(parameters.values()),
        gradients_(parameters, in_order(options), world) {
    check_covers(optimizer, parameters);
  }

  void synchronize() { gradients_.synchronize(); }

  void step() {
    if (dynamic_cast<torch::optim::LBFGS*>(&optimizer_) != nullptr)
      throw InputError(
          "DistributedOptimizer: torch::optim::LBFGS evaluates the model itself: expected "
          "step(closure)");
    check_groups();
    synchronize();
    optimizer_.step();
    gradients_.stepped();
  }

  torch::Tensor step(const torch::optim::Optimizer::LossClosure& closure) {
    check_groups();
    if (op_ == ReduceOp::adasum)
      throw InputError(
          "DistributedOptimizer: step(closure) needs the loss that the gradients are of, and op is "
          "adasum: expected average or sum");
    has_closure_ = true;
    return optimizer_.step([&] {
      torch::Tensor loss;
      {
        const torch::AutoGradMode with_gradients(true);
        loss = closure();
      }
      synchronize();
      gradients_.stepped();
      torch::Tensor of_all = loss.detach().clone();
      allreduce(of_all, op_, world_);
      return of_all;
    });
  }

  int join() {
    if (has_closure_)
      throw InputError(
          "DistributedOptimizer: join() does not go with step(closure), for which this rank has no "
          "data: expected as many steps on every rank");
    const int last = gradients_.join([this] { optimizer_.step(); }, [this] { clear_optimizer(); });
    // Whose steps were the program's own, with all that it does around them.
    const torch::NoGradGuard guard;
    std::vector<torch::Tensor> all = given_;
    for (const auto& group : optimizer_.param_groups())  // masters, or the same
      all.insert(all.end(), group.params().begin(), group.params().end());
    std::set<const void*> sent;
    std::set<std::string> devices;
    for (const torch::Tensor& parameter : all) {
      if (!sent.insert(parameter.unsafeGetTensorImpl()).second) continue;
      broadcast(parameter, last, world_);
      devices.insert(parameter.device().str());
    }
    // A state goes to one device.
    if (devices.size() == 1) broadcast_optimizer_state(optimizer_, last, world_);
    return last;
  }

  void zero_grad() {
    gradients_.zero_grad();
    clear_optimizer();
  }

 private:
  // Without overlap gradients may be of what backward does not know, such as master weights, and be
  // made behind it.
  static DistributedOptimizerOptions in_order(DistributedOptimizerOptions options) {
    options.after_backward = options.after_backward && options.overlap;
    return options;
  }

  void check_groups() const {
    if (const auto now = count_parameters(optimizer_); now != parameters_) {
      throw InputError(
          fmt::format("DistributedOptimizer: the optimizer updates {} parameters, but {} when this "
                      "was made, and the gradients of "
                      "others are not reduced: make it after the last add_param_group()",
                      now, parameters_));
    }
  }

  // Masters in another precision have gradients of their own.
  void clear_optimizer() {
    for (auto& group : optimizer_.param_groups()) {
      for (auto& parameter : group.params()) parameter.mutable_grad() = torch::Tensor();
    }
  }

  torch::optim::Optimizer& optimizer_;
  World world_;
  ReduceOp op_;
  bool has_closure_ = false;
  std::size_t parameters_ = 0;  // of the optimizer, when this was made
  std::vector<torch::Tensor> given_;
  DistributedGradients gradients_;
};

DistributedOptimizer::DistributedOptimizer(
    torch::optim::Optimizer& optimizer,
    const torch::OrderedDict<std::string, torch::Tensor>& parameters,
    DistributedOptimizerOptions options, const World& world)
    : impl_(std::make_shared<Impl>(optimizer, parameters, options, world)) {}
DistributedOptimizer::~DistributedOptimizer() = default;

void DistributedOptimizer::synchronize() { impl_->synchronize(); }
void DistributedOptimizer::step() { impl_->step(); }
torch::Tensor DistributedOptimizer::step(const torch::optim::Optimizer::LossClosure& closure) {
  return impl_->step(closure);
}
int DistributedOptimizer::join() { return impl_->join(); }
void DistributedOptimizer::zero_grad() { impl_->zero_grad(); }

}  // namespace sullae
