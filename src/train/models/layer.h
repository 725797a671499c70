// The layers of networks that may be divided among ranks: --shard parameters, --mesh.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "sullae/parallel/sharded_units.h"
#include "sullae/sullae.h"

namespace sullae::train {

/// How a network's layers are divided.
struct Division {
  /// Who has their parameters when they do not run; null: they are there at all times.
  std::shared_ptr<ShardedUnits> units = nullptr;
  /// Where those are; a network without them is moved when it is made.
  torch::Device device = torch::kCPU;
  /// Those that have parts of each; none: they are whole.
  std::optional<World> tensor = std::nullopt;
  /// Those that have some each, one behind the other's; none: all are here.
  std::optional<World> stages = std::nullopt;
  int stages_per_rank = 1;

  const World* stage_ranks() const { return stages ? &*stages : nullptr; }
  bool is_first() const { return !stages || stages->rank() == 0; }
  bool is_last() const { return !stages || stages->rank() == stages->size() - 1; }
};

/// Parameters that are there at all times, or, in units, while run() does something with them.
class Layer {
 public:
  Layer() = default;
  /// Those of `module`, which have their values by now. `name` is its place in the network; empty:
  /// the network itself.
  Layer(const std::string& name, const std::shared_ptr<torch::nn::Module>& module,
        const Division& division) {
    if (!division.units) return;
    module->to(division.device);
    unit_ = division.units->shard(torch::nn::ModuleHolder<torch::nn::Module>(module), name);
  }

  torch::Tensor run(const torch::Tensor& input,
                    const std::function<torch::Tensor(const torch::Tensor&)>& forward) const {
    return unit_ ? unit_->run(input, forward) : forward(input);
  }

 private:
  std::optional<ShardedUnit<torch::nn::Module>> unit_;
};

/// What a network begins and ends with, as one layer, of which this rank may have some.
class Ends {
 public:
  explicit Ends(torch::nn::Module& network)
      : network_(network), all_(std::make_shared<torch::nn::Module>()) {}

  /// By its name in the network, where it `is_here`; else `module` becomes null.
  template <class Contained>
  void add(const std::string& name, bool is_here, torch::nn::ModuleHolder<Contained>& module) {
    if (is_here)
      all_->register_module(name, network_.register_module(name, module.ptr()));
    else
      module = nullptr;
  }
  Layer layer(const Division& division) const { return {"", all_, division}; }

 private:
  torch::nn::Module& network_;
  std::shared_ptr<torch::nn::Module> all_;
};

}  // namespace sullae::train
