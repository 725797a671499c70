// The layers of networks that may be divided among ranks: --shard parameters, --mesh.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sullae/parallel/sharded_units.h"
#include "sullae/sullae.h"

namespace sullae::train {

/// How a network's layers are divided.
struct Division {
  /// Who has their parameters when they do not run; null: they are there at all times.
  std::shared_ptr<ShardedUnits> units = nullptr;
  /// Those that have parts of each; none: they are whole.
  std::optional<World> tensor = std::nullopt;
};

/// Parameters that are there at all times, or, in units, while run() does something with them.
class Layer {
 public:
  Layer() = default;
  /// Those of `module`, which have their values by now. `name` is its place in the network; empty: the network itself.
  Layer(const std::string& name, const std::shared_ptr<torch::nn::Module>& module,
        const Division& division) {
    if (division.units)
      unit_ = division.units->shard(torch::nn::ModuleHolder<torch::nn::Module>(module), name);
  }

  torch::Tensor run(const torch::Tensor& input,
                    const std::function<torch::Tensor(const torch::Tensor&)>& forward) const {
    return unit_ ? unit_->run(input, forward) : forward(input);
  }

 private:
  std::optional<ShardedUnit<torch::nn::Module>> unit_;
};

/// Several modules of a network as one, by their names in it.
inline std::shared_ptr<torch::nn::Module> together(
    const std::vector<std::pair<std::string, std::shared_ptr<torch::nn::Module>>>& modules) {
  auto all = std::make_shared<torch::nn::Module>();
  for (const auto& [name, module] : modules) all->register_module(name, module);
  return all;
}

}  // namespace sullae::train
