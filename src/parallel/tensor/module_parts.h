// A module that has layers in parts, as checkpoints see it.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "parallel/parameter_parts.h"
#include "sullae/parallel/tensor_parallel.h"

namespace sullae {

/// All of its parameters, trained or not: those that are in parts, and those that are whole, and alike, on all ranks.
class ModuleParts final : public ParameterParts {
 public:
  /// `masters`: what the optimizer is of in the place of the module's parameters, by their names. Collective over `world`, the
  /// layers'. Throws InputError for parameters that are on a GPU, or have gaps.
  ModuleParts(const torch::nn::Module& module, const std::map<std::string, torch::Tensor>& masters,
              const World& world);

  const World& world() const override { return world_; }
  const std::vector<PlannedParameter>& all() const override { return all_; }
  torch::Tensor outline_of(std::size_t parameter) const override { return outlines_[parameter]; }
  bool is_whole(std::size_t) const override { return false; }
  torch::ScalarType type_of(std::size_t parameter) const override {
    return pieces_[parameter].scalar_type();
  }
  std::vector<Part> parts_of(std::size_t parameter) const override;
  const torch::Tensor& piece_of(std::size_t parameter) const override { return pieces_[parameter]; }
  /// Of masters their owner makes parameters.
  void refresh() override {}

 private:
  World world_;
  std::vector<PlannedParameter> all_;
  std::vector<torch::Tensor> outlines_;
  std::vector<torch::Tensor> pieces_;
  struct Division {
    std::int64_t dim = 0;
    std::vector<std::pair<IndexRange, int>> ranges = {};  // and whose they are; none: all have all
  };
  std::vector<Division> divisions_;
};

}  // namespace sullae
