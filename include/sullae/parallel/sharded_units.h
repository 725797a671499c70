// Models of which each rank keeps a part, and has the whole of one layer at a time.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sullae/sullae.h"
#include "sullae/torch/checkpoint.h"

namespace sullae {

class ParameterStore;
class UnitParameters;

struct ShardedUnitsOptions {
  /// Units are cast to torch::kBFloat16 as cast_to_16_bits() (sullae/torch/precision.h) does, norms
  /// and embeddings stay in float32, and so does what is updated, of which each rank has its part:
  /// parameters travel, and are there while their unit runs, in 16 bits, and so do gradients. None:
  /// units compute in the types that they have.
  std::optional<torch::ScalarType> type = std::nullopt;
};

/// A module whose parameters are there while it runs, forward or backward, and in parts between
/// ranks otherwise. Copies refer to the same one. Called, on all ranks alike, with what its
/// forward() takes, a tensor first, which that must not change in place; it returns a tensor, which
/// is the only way out of it for what has a gradient. There is no backward() with create_graph.
template <class Contained>
class ShardedUnit {
 public:
  ShardedUnit() = default;
  template <class... More>
  torch::Tensor operator()(const torch::Tensor& input, More&&... more) const;
  /// Runs `forward`, which takes `input`, in the place of the module's: of a unit that does one
  /// thing here and another there, as the vectors of words that a text begins with, and that what
  /// follows is scored by.
  torch::Tensor run(const torch::Tensor& input,
                    const std::function<torch::Tensor(const torch::Tensor&)>& forward) const;
  /// For what is no parameter: those can be read nowhere but in forward(), and in what run() is
  /// given.
  const std::shared_ptr<Contained>& module() const { return module_; }

 private:
  friend class ShardedUnits;
  std::shared_ptr<UnitParameters> parameters_;
  std::size_t number_ = 0;
  std::shared_ptr<Contained> module_;
};

/// Parameters, gradients and the optimizer's state divided among ranks, layer by layer (ZeRO stage
/// 3: S. Rajbhandari et al., 2020; FSDP: Y. Zhao et al., 2023). With Adam in float32 and P ranks a
/// parameter takes 16/P bytes; on top come four times the largest unit's parameters, and those
/// gradients of a unit whose input needs none.
///
///   ShardedUnits units(world);
///   for (int i = 0; i < layers; ++i) blocks.push_back(units.shard(Block(…), "blocks." + std::to_string(i)));
///   ShardedOptimizer optimizer(units, [](const auto& pieces) { return std::make_unique<sullae::Adam>(pieces.values(), 1e-3); });
///   ...
///   for (auto& block : blocks) x = block(x);
///
/// The first step learns in which order units run; from then on the next one's parameters come
/// while one computes. A unit may run several times. Modules that belong to no unit are trained by
/// another optimizer. All ranks make the same units, in the same order, and run them in the same
/// order. Used by the thread that trains.
class ShardedUnits {
 public:
  /// Among the ranks of `world`.
  explicit ShardedUnits(const World& world = sullae::world(), ShardedUnitsOptions options = {});
  /// The same, where `replicas` are the ranks that have the same parts in other worlds, as
  /// mesh["replicas"] and mesh["shard"] are: what is moved most stays within a host, and between
  /// hosts each part is averaged (hybrid sharding).
  ShardedUnits(const World& world, const World& replicas, ShardedUnitsOptions options = {});

  /// Divides the parameters of `module` that require gradients, as they are on rank 0, and lets go
  /// of all but this rank's part: a model that is made unit by unit is nowhere whole. Their names
  /// are those in the module, after `name` and a dot. What needs no gradient stays, as it is on
  /// rank 0. On GPUs, where the module is by then and all others are, parts travel as CUDA tensors
  /// do (sullae/torch.h). Collective. Throws InputError on every rank for parameters of two units,
  /// or on two devices, for a type that libtorch does not compute in, and once a unit ran or an
  /// optimizer was made; MismatchError where units differ.
  template <class Contained>
  ShardedUnit<Contained> shard(torch::nn::ModuleHolder<Contained> module, const std::string& name) {
    ShardedUnit<Contained> unit;
    unit.parameters_ = parameters_;
    unit.module_ = module.ptr();
    unit.number_ = add(*unit.module_, name);
    return unit;
  }

  /// Whose ranks have the parts.
  const World& world() const;
  /// Whether ranks of other worlds have the same ones.
  bool has_replicas() const;
  const ShardedUnitsOptions& options() const;
  /// Where they are; host memory while there are none.
  torch::Device device() const;
  /// Of what is divided.
  std::vector<std::string> parameter_names() const;

 private:
  friend class ShardedOptimizer;
  friend ParameterStore& store_of(ShardedUnits& units);
  std::size_t add(torch::nn::Module& module, const std::string& name);
  std::shared_ptr<UnitParameters> parameters_;
};

/// save_checkpoint() and load_checkpoint() (sharded_optimizer.h) of the weights alone, with or
/// without an optimizer: each rank writes, and is given, its parts. `module` may lack the units'
/// parameters. Collective, over the units' world and its replicas. Throw as those, on every rank.
void save_weights(const std::filesystem::path& file, const torch::nn::Module& module,
                  ShardedUnits& units, const CheckpointOptions& options = {});
CheckpointMetadata load_weights(const std::filesystem::path& file, torch::nn::Module& module,
                                ShardedUnits& units);

namespace detail {
/// What ShardedUnit does around `forward`.
torch::Tensor run_unit(const std::shared_ptr<UnitParameters>& parameters, std::size_t number,
                       const torch::Tensor& input,
                       const std::function<torch::Tensor(const torch::Tensor&)>& forward);
}  // namespace detail

template <class Contained>
template <class... More>
torch::Tensor ShardedUnit<Contained>::operator()(const torch::Tensor& input, More&&... more) const {
  return run(input, [&](const torch::Tensor& x) {
    return module_->forward(x, std::forward<More>(more)...);
  });
}

template <class Contained>
torch::Tensor ShardedUnit<Contained>::run(
    const torch::Tensor& input,
    const std::function<torch::Tensor(const torch::Tensor&)>& forward) const {
  return detail::run_unit(parameters_, number_, input, forward);
}

}  // namespace sullae
