// A model that ranks have parts of, as checkpoints see it: layers in parts, some of its layers, or both.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallel/parameter_parts.h"
#include "sullae/parallel/tensor_parallel.h"

namespace sullae {

/// What a rank has of a parameter.
struct OwnParameter {
  std::string name;
  torch::Tensor tensor;   ///< the module's
  torch::Tensor updated;  ///< what the optimizer is of: that, or its float32 master
  std::optional<ParameterPart> part = {};  ///< none: all of it
};

/// All of a module's, trained or not, each once; `called` stands, with a dot, before their names, and `masters` are by these.
void add_parameters(std::vector<OwnParameter>& to, const torch::nn::Module& module,
                    const std::map<std::string, torch::Tensor>& masters,
                    const std::string& called = {});

/// All parameters of a model, of which each rank has some, whole or in parts. A rank has a tensor without memory for each that is
/// another's. In the order of ranks until put_in_order().
class ModelParts final : public ParameterParts {
 public:
  /// `own`: this rank's. Those of one name are one parameter's: its parts, or all alike. Collective over
  /// `world`. Throws InputError, on every rank, for parameters that have gaps, or whose parts do not make up a whole.
  ModelParts(const std::vector<OwnParameter>& own, const World& world);

  const World& world() const override { return world_; }
  const std::vector<PlannedParameter>& all() const override { return all_; }
  torch::Tensor outline_of(std::size_t parameter) const override { return outlines_[parameter]; }
  bool is_whole(std::size_t) const override { return false; }
  torch::ScalarType type_of(std::size_t parameter) const override {
    return outlines_[parameter].scalar_type();
  }
  std::vector<Part> parts_of(std::size_t parameter) const override;
  const torch::Tensor& piece_of(std::size_t parameter) const override { return pieces_[parameter]; }
  /// Of masters their owner makes parameters.
  void refresh() override {}
  /// all() becomes what `names` are in the order of; others of these are passed over.
  void put_in_order(const std::vector<std::string>& names);

 private:
  struct Division {
    std::optional<std::int64_t> dim = {};  // along which; none: who has it has all of it
    std::vector<std::pair<IndexRange, int>> ranges = {};  // ascending, and whose they are
  };

  World world_;
  std::vector<PlannedParameter> all_;
  std::vector<torch::Tensor> outlines_;
  std::vector<torch::Tensor> pieces_;
  std::vector<Division> divisions_;
};

}  // namespace sullae
