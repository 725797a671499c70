#include "sullae/parallel/sharded_optimizer.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "parallel/sharded_parameters.h"
#include "parallel/sharded_state.h"
#include "sullae/torch.h"

namespace sullae {
namespace {

// Clipping as torch::nn::utils::clip_grad_norm_ does.
constexpr double kNormEpsilon = 1e-6;

void check_elementwise(const torch::optim::Optimizer& optimizer) {
  const bool needs_whole = dynamic_cast<const LARS*>(&optimizer) != nullptr ||
                           dynamic_cast<const LAMB*>(&optimizer) != nullptr ||
                           dynamic_cast<const torch::optim::LBFGS*>(&optimizer) != nullptr;
  if (needs_whole)
    throw InputError(
        "ShardedOptimizer: LARS, LAMB and LBFGS need norms of whole tensors, and each rank has a "
        "part of them: use SGD, Adam, AdamW, Adagrad or RMSprop, or DistributedOptimizer");
}

// What is left out would never be updated, and what is not divided would differ from rank to rank.
void check_covers(const torch::optim::Optimizer& optimizer,
                  const ShardedOptimizer::Pieces& pieces) {
  std::set<const void*> expected;
  for (const auto& item : pieces) expected.insert(item.value().unsafeGetTensorImpl());
  std::size_t found = 0;
  for (const auto& group : optimizer.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      ++found;
      if (!expected.erase(parameter.unsafeGetTensorImpl()))
        throw InputError(
            "ShardedOptimizer: the optimizer updates a tensor that is none of the pieces that it "
            "was to be made of");
    }
  }
  if (!expected.empty())
    throw InputError(fmt::format("ShardedOptimizer: the optimizer updates {} of {} pieces", found,
                                 pieces.size()));
}

}  // namespace

class ShardedOptimizer::Impl {
 public:
  Impl(const torch::OrderedDict<std::string, torch::Tensor>& parameters, Maker make,
       const ShardedOptimizerOptions& options, const World& world)
      : make_(std::move(make)), sharded_(parameters, options, world) {
    const Pieces pieces = sharded_.pieces();
    optimizer_ = make_(pieces);
    check_elementwise(*optimizer_);
    check_covers(*optimizer_, pieces);
  }

  void synchronize() {
    if (synchronized_) return;
    sharded_.gradients().synchronize();
    sharded_.take_gradients();
    synchronized_ = true;
  }

  double clip_grad_norm(double most) {
    synchronize();
    const torch::NoGradGuard guard;
    double squares = 0;
    for (const torch::Tensor& gradient : gradients())
      squares += gradient.square().sum(torch::kFloat64).item<double>();
    sharded_.world().allreduce(&squares, &squares, 1, DataType::float64);
    const double norm = std::sqrt(squares);
    const double factor = most / (norm + kNormEpsilon);
    if (factor < 1) {
      for (torch::Tensor& gradient : gradients()) gradient.mul_(factor);
    }
    return norm;
  }

  bool unscale(double scale) {
    synchronize();
    const torch::NoGradGuard guard;
    std::int64_t finite = 1;
    for (torch::Tensor& gradient : gradients()) {
      gradient.div_(scale);
      // Cheaper than looking at each value: a sum with an infinity or a NaN in it is one.
      if (!std::isfinite(gradient.sum(torch::kFloat64).item<double>())) finite = 0;
    }
    sharded_.world().allreduce(&finite, &finite, 1, DataType::int64, ReduceOp::min);
    return finite != 0;
  }

  void step() {
    synchronize();
    optimizer_->step();
    sharded_.publish();
    sharded_.gradients().begin_step();
    synchronized_ = false;
  }

  void zero_grad() {
    sharded_.gradients().zero_grad();
    sharded_.clear_gradients();
    synchronized_ = false;
  }

  torch::optim::Optimizer& optimizer() { return *optimizer_; }

  std::unique_ptr<torch::optim::Optimizer> gather(int root) {
    const auto masters = gather_pieces(root);
    std::unique_ptr<torch::optim::Optimizer> whole;
    Pieces parameters;
    if (is(root)) {
      for (std::size_t i = 0; i < masters.size(); ++i)
        parameters.insert(sharded_.all()[i].name, masters[i]);
      whole = make_(parameters);
      copy_options(*optimizer_, *whole);
    }
    const auto prototype = make_prototype();
    for (std::size_t i = 0; i < sharded_.all().size(); ++i) {
      const auto tensors = gather_state(sharded_, i, *optimizer_, root);
      if (whole && !tensors.empty()) set_state(*whole, masters[i], tensors, *prototype);
    }
    return whole;
  }

  void scatter(torch::optim::Optimizer* whole, int root) {
    const auto prototype = make_prototype();
    std::vector<torch::Tensor> parameters;
    if (is(root)) parameters = in_order(*whole);
    for (std::size_t i = 0; i < sharded_.all().size(); ++i) {
      StateTensors tensors;
      if (is(root)) tensors = state_of(*whole, parameters[i]);
      tensors = scatter_state(sharded_, i, tensors, root);
      if (!sharded_.piece_of(i).defined()) continue;
      if (!tensors.empty() && !prototype)
        throw InputError("ShardedOptimizer: the state is of another kind of optimizer");
      if (prototype) set_state(*optimizer_, sharded_.piece_of(i), tensors, *prototype);
    }
    scatter_options(whole, *optimizer_, sharded_.world(), root);
  }

  std::map<std::string, torch::Tensor> master_weights(int root) {
    std::map<std::string, torch::Tensor> found;
    const auto masters = gather_pieces(root);
    for (std::size_t i = 0; i < masters.size(); ++i) {
      if (masters[i].scalar_type() != sharded_.all()[i].tensor.scalar_type())
        found.emplace(sharded_.all()[i].name, masters[i]);
    }
    return found;
  }

  void take_weights(const Pieces& weights) { sharded_.take_weights(weights); }

 private:
  bool is(int rank) const { return sharded_.world().rank() == rank; }

  std::vector<torch::Tensor> gradients() const {
    std::vector<torch::Tensor> found;
    for (const auto& group : optimizer_->param_groups()) {
      for (const torch::Tensor& piece : group.params()) {
        if (piece.grad().defined()) found.push_back(piece.grad());
      }
    }
    return found;
  }

  // On root the parameters, or their masters; nothing on others.
  std::vector<torch::Tensor> gather_pieces(int root) {
    std::vector<torch::Tensor> whole;
    for (std::size_t i = 0; i < sharded_.all().size(); ++i) {
      const torch::Tensor& parameter = sharded_.all()[i].tensor;
      const auto type = parameter.scalar_type();
      const bool has_master = type == torch::kBFloat16 || type == torch::kFloat16;
      torch::Tensor master = parameter;
      if (has_master) master = gather_piece(sharded_, i, root);
      if (is(root)) whole.push_back(master);
    }
    return whole;
  }

  // By what an optimizer of this kind keeps of a parameter; null for nothing.
  std::unique_ptr<torch::optim::OptimizerParamState> make_prototype() const {
    torch::Tensor one = torch::zeros({1}, torch::kFloat32).set_requires_grad(true);
    one.mutable_grad() = torch::zeros({1});
    Pieces pieces;
    pieces.insert("prototype", one);
    const auto optimizer = make_(pieces);
    optimizer->step();
    return optimizer->state().empty() ? nullptr : optimizer->state().begin()->second->clone();
  }

  // The whole optimizer's parameters in ours, which may be in other groups.
  std::vector<torch::Tensor> in_order(const torch::optim::Optimizer& whole) const {
    Pieces names;
    for (const PlannedParameter& parameter : sharded_.all())
      names.insert(parameter.name, parameter.tensor);
    const auto like = make_(names);
    std::map<const void*, torch::Tensor> found;
    std::size_t count = 0;
    for (std::size_t group = 0; group < like->param_groups().size(); ++group) {
      const auto& ours = like->param_groups()[group].params();
      const bool fits = group < whole.param_groups().size() &&
                        whole.param_groups()[group].params().size() == ours.size();
      if (!fits)
        throw InputError("ShardedOptimizer: the whole optimizer has other groups of parameters");
      for (std::size_t i = 0; i < ours.size(); ++i, ++count)
        found[ours[i].unsafeGetTensorImpl()] = whole.param_groups()[group].params()[i];
    }
    std::vector<torch::Tensor> ordered;
    for (const PlannedParameter& parameter : sharded_.all())
      ordered.push_back(found.at(parameter.tensor.unsafeGetTensorImpl()));
    return ordered;
  }

  Maker make_;
  ShardedParameters sharded_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  bool synchronized_ = false;
};

ShardedOptimizer::ShardedOptimizer(const torch::OrderedDict<std::string, torch::Tensor>& parameters,
                                   const Maker& make, ShardedOptimizerOptions options,
                                   const World& world)
    : impl_(std::make_unique<Impl>(parameters, make, options, world)) {}
ShardedOptimizer::~ShardedOptimizer() = default;

void ShardedOptimizer::synchronize() { impl_->synchronize(); }
double ShardedOptimizer::clip_grad_norm(double most) { return impl_->clip_grad_norm(most); }
void ShardedOptimizer::step() { impl_->step(); }
void ShardedOptimizer::zero_grad() { impl_->zero_grad(); }
torch::optim::Optimizer& ShardedOptimizer::optimizer() { return impl_->optimizer(); }
std::unique_ptr<torch::optim::Optimizer> ShardedOptimizer::gather(int root) {
  return impl_->gather(root);
}
void ShardedOptimizer::scatter(torch::optim::Optimizer* whole, int root) {
  impl_->scatter(whole, root);
}
std::map<std::string, torch::Tensor> ShardedOptimizer::master_weights(int root) {
  return impl_->master_weights(root);
}
bool ShardedOptimizer::unscale(double scale) { return impl_->unscale(scale); }
void ShardedOptimizer::take_weights(const torch::OrderedDict<std::string, torch::Tensor>& weights) {
  impl_->take_weights(weights);
}

}  // namespace sullae
