#include "sullae/parallel/sharded_optimizer.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <typeinfo>
#include <utility>

#include "parallel/checkpoint/checkpoint.h"
#include "parallel/gradient_norm.h"
#include "parallel/sharded_parameters.h"
#include "parallel/sharded_state.h"
#include "parallel/sharded_within.h"
#include "parallel/units/unit_parameters.h"
#include "sullae/parallel/sharded_units.h"
#include "sullae/torch.h"
#include "torch/agreement.h"

namespace sullae {
namespace {

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
  Impl(std::shared_ptr<ParameterStore> store, Maker make)
      : make_(std::move(make)), store_(std::move(store)), sharded_(*store_) {
    const Pieces pieces = sharded_.pieces();
    optimizer_ = make_(pieces);
    check_elementwise(*optimizer_);
    check_covers(*optimizer_, pieces);
  }

  void synchronize() { sharded_.reduce(); }

  double clip_grad_norm(double max_norm) {
    synchronize();
    const torch::NoGradGuard guard;
    double squares = sum_of([](const torch::Tensor& gradient) { return gradient.square(); });
    sharded_.world().allreduce(&squares, &squares, 1, DataType::float64);
    const double norm = std::sqrt(squares);
    const double factor = clip_factor(norm, max_norm);
    if (factor < 1) {
      for (torch::Tensor& gradient : gradients()) gradient.mul_(factor);
    }
    return norm;
  }

  bool unscale(double scale) {
    synchronize();
    const torch::NoGradGuard guard;
    std::int64_t finite = 1;
    // Cheaper than looking at each value: a sum with an infinity or a NaN in it is one.
    const double sum = sum_of([&](torch::Tensor gradient) { return gradient.div_(scale); });
    if (!std::isfinite(sum)) finite = 0;
    sharded_.world().allreduce(&finite, &finite, 1, DataType::int64, ReduceOp::min);
    return finite != 0;
  }

  void step() {
    synchronize();
    optimizer_->step();
    sharded_.publish();
  }

  void zero_grad() { sharded_.clear_gradients(); }

  torch::optim::Optimizer& optimizer() { return *optimizer_; }

  Whole gather(int root) {
    const auto masters = gather_pieces(root);
    std::unique_ptr<torch::optim::Optimizer> whole;
    Pieces parameters;
    if (is(root)) {
      for (std::size_t i = 0; i < masters.size(); ++i)
        parameters.insert(sharded_.all()[i].name, masters[i]);
      whole = make_(parameters);
      copy_options(*optimizer_, *whole);
    }
    const auto prototype = make_prototype(make_, *optimizer_);
    for (std::size_t i = 0; i < sharded_.all().size(); ++i) {
      const auto tensors = gather_state(sharded_, i, *optimizer_, root);
      if (whole && !tensors.empty()) set_state(*whole, masters[i], tensors, *prototype);
    }
    return {.optimizer = std::move(whole), .weights = masters_of(masters)};
  }

  void scatter(torch::optim::Optimizer* whole, int root) {
    std::vector<torch::Tensor> parameters;
    on_root(sharded_.world(), root, [&] {
      const auto problem = why_not(whole, parameters);
      if (!problem.empty()) throw InputError("ShardedOptimizer::scatter: " + problem);
    });
    scatter_options(whole, *optimizer_, sharded_.world(), root);
    const auto prototype = make_prototype(make_, *optimizer_);
    for (std::size_t i = 0; i < sharded_.all().size(); ++i) {
      if (!sharded_.is_trained(i)) continue;
      StateTensors tensors;
      if (is(root)) tensors = state_of(*whole, parameters[i]);
      tensors = scatter_state(sharded_, i, tensors, root);
      if (prototype && sharded_.piece_of(i).defined())
        set_state(*optimizer_, sharded_.piece_of(i), tensors, *prototype);
    }
  }

  std::map<std::string, torch::Tensor> master_weights(int root) {
    return masters_of(gather_pieces(root));
  }

  void take_weights(const Pieces& weights) { sharded_.take_weights(weights); }

  Pieces pieces() const { return sharded_.pieces(); }
  ShardedWithin within() { return {.store = sharded_, .sharded = {*optimizer_, make_}}; }

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

  // Of what `values` makes of all gradients. A GPU is waited for once.
  template <class Values>
  double sum_of(const Values& values) const {
    torch::Tensor sum;
    for (const torch::Tensor& gradient : gradients()) {
      const torch::Tensor its = values(gradient).sum(torch::kFloat64);
      sum = sum.defined() ? sum.add_(its) : its;
    }
    return sum.defined() ? sum.item<double>() : 0;
  }

  // On root the parameters, or their masters; nothing on others.
  std::vector<torch::Tensor> gather_pieces(int root) {
    std::vector<torch::Tensor> whole;
    for (std::size_t i = 0; i < sharded_.all().size(); ++i) {
      const torch::Tensor master =
          sharded_.is_whole(i) ? sharded_.all()[i].tensor : gather_piece(sharded_, i, root);
      if (is(root)) whole.push_back(master);
    }
    return whole;
  }

  // Of all pieces those that are no parameters, by name.
  std::map<std::string, torch::Tensor> masters_of(const std::vector<torch::Tensor>& whole) const {
    std::map<std::string, torch::Tensor> found;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      if (!whole[i].is_same(sharded_.all()[i].tensor))
        found.emplace(sharded_.all()[i].name, whole[i]);
    }
    return found;
  }

  // Why `whole` cannot be divided; else its parameters become those of ours, in our order, whatever
  // its groups.
  std::string why_not(const torch::optim::Optimizer* whole,
                      std::vector<torch::Tensor>& parameters) const {
    if (whole == nullptr) return "no optimizer was given on the root";
    if (typeid(*whole) != typeid(*optimizer_)) return "the optimizer is of another kind";
    Pieces names;
    for (const PlannedParameter& parameter : sharded_.all())
      names.insert(parameter.name, parameter.tensor);
    const auto like = make_(names);
    std::map<const void*, torch::Tensor> found;
    for (std::size_t group = 0; group < like->param_groups().size(); ++group) {
      const auto& ours = like->param_groups()[group].params();
      const bool fits = group < whole->param_groups().size() &&
                        whole->param_groups()[group].params().size() == ours.size();
      if (!fits) return "the optimizer has other groups of parameters";
      const auto& theirs = whole->param_groups()[group].params();
      for (std::size_t i = 0; i < ours.size(); ++i) {
        if (theirs[i].sizes() != ours[i].sizes()) return "the optimizer has other parameters";
        found[ours[i].unsafeGetTensorImpl()] = theirs[i];
      }
    }
    for (const PlannedParameter& parameter : sharded_.all())
      parameters.push_back(found.at(parameter.tensor.unsafeGetTensorImpl()));
    return {};
  }

  Maker make_;
  std::shared_ptr<ParameterStore> store_;
  ParameterStore& sharded_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

ShardedOptimizer::ShardedOptimizer(const torch::OrderedDict<std::string, torch::Tensor>& parameters,
                                   const Maker& make, ShardedOptimizerOptions options,
                                   const World& world)
    : impl_(std::make_unique<Impl>(std::make_shared<ShardedParameters>(parameters, options, world),
                                   make)) {}
ShardedOptimizer::ShardedOptimizer(ShardedUnits& units, const Maker& make)
    : units_(units.parameters_),
      impl_((units_->give_to_optimizer(), std::make_unique<Impl>(units_, make))) {}
ShardedOptimizer::~ShardedOptimizer() {
  if (units_) units_->take_from_optimizer();
}

void ShardedOptimizer::synchronize() { impl_->synchronize(); }
double ShardedOptimizer::clip_grad_norm(double max_norm) { return impl_->clip_grad_norm(max_norm); }
void ShardedOptimizer::step() { impl_->step(); }
void ShardedOptimizer::zero_grad() { impl_->zero_grad(); }
torch::optim::Optimizer& ShardedOptimizer::optimizer() { return impl_->optimizer(); }
ShardedOptimizer::Whole ShardedOptimizer::gather(int root) { return impl_->gather(root); }
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
ShardedOptimizer::Pieces ShardedOptimizer::pieces() const { return impl_->pieces(); }

ShardedWithin within(ShardedOptimizer& optimizer) { return optimizer.impl_->within(); }

void save_checkpoint(const std::filesystem::path& file, const torch::nn::Module& module,
                     ShardedOptimizer& optimizer, const CheckpointOptions& options) {
  const auto [store, sharded] = within(optimizer);
  save_parts(file, module, store, &sharded, options);
}
void save_weights(const std::filesystem::path& file, const torch::nn::Module& module,
                  ShardedOptimizer& optimizer, const CheckpointOptions& options) {
  save_parts(file, module, within(optimizer).store, nullptr, options);
}
CheckpointMetadata load_checkpoint(const std::filesystem::path& file, torch::nn::Module& module,
                                   ShardedOptimizer& optimizer) {
  const auto [store, sharded] = within(optimizer);
  return load_parts(file, module, store, &sharded);
}

}  // namespace sullae
