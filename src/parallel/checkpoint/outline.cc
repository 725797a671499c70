#include "parallel/checkpoint/outline.h"

#include <fmt/format.h>
#include <torch/optim/serialize.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "parallel/flat.h"
#include "parallel/named_state.h"
#include "parallel/ranges.h"
#include "torch/checkpoint_archive.h"
#include "torch/optimizer_state.h"

namespace sullae {
namespace {

// Any optimizer's state of a parameter, in the form of libtorch's.
struct OutlinedState final : torch::optim::OptimizerCloneableParamState<OutlinedState> {
  void serialize(torch::serialize::OutputArchive& archive) const override {
    for (const auto& [name, value] : tensors) archive.write(name, value);
  }
  StateTensors tensors;
};

struct Wanted {
  torch::Tensor like;
  torch::ScalarType type;
  std::vector<Part> parts;
  torch::Tensor own;
};

class Outliner {
 public:
  Outliner(const torch::nn::Module& module, const ParameterParts& parts, const Sharded* sharded,
           const std::vector<StateTensors>& states)
      : module_(module), parts_(parts), sharded_(sharded), states_(states) {
    for (std::size_t i = 0; i < all().size(); ++i) {
      const torch::Tensor outline = parts.outline_of(i);
      if (outline.numel() == 0) continue;  // nobody has a part of it
      weight_[all()[i].tensor.unsafeGetTensorImpl()] = wanted_.size();
      wanted_.push_back({outline, parts.type_of(i), writers_of(parts, i)});
      for (const auto& [name, value] : states[i]) {
        if (!is_outlined(value)) continue;
        wanted_.push_back({outline, value.toTensor().scalar_type(), moment_writers_of(parts, i)});
      }
    }
    for_each_tensor(module,
                    [&](const std::string&, const torch::Tensor& tensor, bool) { want(tensor); });
    for (const NamedState& other : parts.others()) want(other.tensor);
  }

  CheckpointOutline lay_out(const CheckpointOptions& options) {
    std::size_t most = 0;
    for (const Wanted& wanted : wanted_)
      most = std::max(
          most, static_cast<std::size_t>(wanted.like.numel()) * c10::elementSize(wanted.type));
    Placeholders room(wanted_.size(), most);
    std::vector<torch::Tensor> places;
    for (const Wanted& wanted : wanted_) places.push_back(room.add(wanted.like, wanted.type));

    torch::serialize::OutputArchive archive;
    CheckpointOptions outlined{.metadata = options.metadata};
    const auto whole = module_with(places, outlined.weights);
    SaveOptimizer save_optimizer;
    if (sharded_ != nullptr)
      save_optimizer = [&](torch::serialize::OutputArchive& into) {
        write_optimizer(into, places);
      };
    write_checkpoint_archive(archive, whole ? *whole : module_, save_optimizer, outlined);
    CheckpointOutline outline{.layout = ArchiveLayout(archive, room)};
    for (std::size_t i = 0; i < wanted_.size(); ++i)
      outline.contents.push_back({.offset = outline.layout.offset_of(i),
                                  .element_bytes = c10::elementSize(wanted_[i].type),
                                  .parts = std::move(wanted_[i].parts),
                                  .own = wanted_[i].own});
    return outline;
  }

 private:
  const std::vector<PlannedParameter>& all() const { return parts_.all(); }

  static bool is_outlined(const c10::IValue& value) { return is_moment(value, 0); }

  // What the archive itself would hold a copy of, otherwise.
  void want(const torch::Tensor& tensor) {
    const bool stays = tensor.numel() == 0 || !tensor.is_cpu() ||
                       tensor.layout() != torch::kStrided || !tensor.is_non_overlapping_and_dense();
    if (stays || weight_.contains(tensor.unsafeGetTensorImpl())) return;
    weight_[tensor.unsafeGetTensorImpl()] = wanted_.size();
    wanted_.push_back({tensor,
                       tensor.scalar_type(),
                       {{.rank = 0, .from = 0, .to = static_cast<std::size_t>(tensor.numel())}},
                       tensor.detach()});
  }

  // In its place in the archive, where it has one.
  torch::Tensor placed(const torch::Tensor& tensor,
                       const std::vector<torch::Tensor>& places) const {
    const auto found = weight_.find(tensor.unsafeGetTensorImpl());
    // One of a unit without elements may stand over memory that is not there.
    if (tensor.numel() == 0) return torch::empty(tensor.sizes(), tensor.scalar_type());
    if (found == weight_.end()) return tensor;
    return places[found->second].detach().set_requires_grad(tensor.requires_grad());
  }

  // In `weights` those of the module, by its names. A module of its own where units have what
  // `module_` has not.
  std::shared_ptr<torch::nn::Module> module_with(const std::vector<torch::Tensor>& places,
                                                 std::map<std::string, torch::Tensor>& weights) {
    std::set<const void*> there;
    for_each_tensor(module_, [&](const std::string& name, const torch::Tensor& tensor, bool) {
      there.insert(tensor.unsafeGetTensorImpl());
      weights[name] = placed(tensor, places);
    });

    std::vector<NamedState> missing;
    for (const PlannedParameter& parameter : all())
      missing.push_back({NamedState::Kind::parameter, parameter.name, parameter.tensor});
    std::ranges::copy(parts_.others(), std::back_inserter(missing));
    std::erase_if(missing, [&](const NamedState& one) {
      return there.contains(one.tensor.unsafeGetTensorImpl());
    });
    if (missing.empty()) return nullptr;
    auto state = state_of(module_);
    for (NamedState& one : state) {
      const auto found = weights.find(one.name);
      if (found != weights.end()) one.tensor = found->second;
    }
    for (const NamedState& one : missing)
      state.push_back({one.kind, one.name, placed(one.tensor, places)});
    return module_of(state);
  }

  void write_optimizer(torch::serialize::OutputArchive& archive,
                       const std::vector<torch::Tensor>& places) {
    ShardedOptimizer::Pieces parameters;
    const auto whole = make_outline(parts_, sharded_->make, parameters);
    const auto groups = sharded_->optimizer.param_groups().size();
    if (groups > whole->param_groups().size())
      throw InputError(
          fmt::format("this rank's optimizer has {} groups, and that of the whole model {}", groups,
                      whole->param_groups().size()));
    // Of groups that the root lacks, which are the last, the file has what the Maker gives them.
    copy_options(sharded_->optimizer, *whole);
    auto& state = whole->state();
    state.clear();
    for (std::size_t i = 0; i < all().size(); ++i) {
      if (states_[i].empty()) continue;
      std::size_t place = weight_.at(all()[i].tensor.unsafeGetTensorImpl());
      auto its = std::make_unique<OutlinedState>();
      its->tensors = states_[i];
      for (auto& [name, value] : its->tensors) {
        if (is_outlined(value)) value = places[++place];
      }
      state[key_of(state, parameters[i].value())] = std::move(its);
    }
    torch::serialize::OutputArchive written(archive.compilation_unit());
    torch::optim::serialize<torch::optim::OptimizerParamState, torch::optim::OptimizerOptions>(
        written, *whole);
    archive.write("state", written);
    save_options(archive, *whole);
  }

  const torch::nn::Module& module_;
  const ParameterParts& parts_;
  const Sharded* sharded_;  // null: weights alone
  const std::vector<StateTensors>& states_;
  std::vector<Wanted> wanted_;
  std::map<const void*, std::size_t> weight_;  // where in wanted_, by tensor
};

}  // namespace

std::vector<Part> moment_writers_of(const ParameterParts& parts, std::size_t parameter) {
  const auto all = parts.parts_of(parameter);
  std::vector<Part> writers;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_written(all, i)) writers.push_back(all[i]);
  }
  return writers;
}

std::vector<Part> writers_of(const ParameterParts& parts, std::size_t parameter) {
  if (!parts.is_whole(parameter) || !parts.is_trained(parameter))
    return moment_writers_of(parts, parameter);
  std::vector<Part> writers;
  for (int rank = 0; rank < parts.world().size(); ++rank) {
    const auto range = even_part(parts.all()[parameter].tensor.numel(), parts.world().size(), rank);
    if (range.from < range.to)
      writers.push_back({.rank = rank,
                         .from = static_cast<std::size_t>(range.from),
                         .to = static_cast<std::size_t>(range.to)});
  }
  return writers;
}

std::unique_ptr<torch::optim::Optimizer> make_outline(const ParameterParts& parts,
                                                      const ShardedOptimizer::Maker& make,
                                                      ShardedOptimizer::Pieces& parameters) {
  for (std::size_t i = 0; i < parts.all().size(); ++i)
    parameters.insert(parts.all()[i].name,
                      torch::empty(parts.outline_of(i).sizes(),
                                   torch::device(torch::kMeta).dtype(parts.type_of(i)))
                          .set_requires_grad(parts.is_trained(i)));
  return make(parameters);
}

CheckpointOutline lay_out(const torch::nn::Module& module, const ParameterParts& parts,
                          const Sharded* sharded, const std::vector<StateTensors>& states,
                          const CheckpointOptions& options) {
  if (!options.weights.empty())
    throw InputError("the weights of a sharded optimizer are its own: leave `weights` empty");
  return Outliner(module, parts, sharded, states).lay_out(options);
}

}  // namespace sullae
