// A model that ranks have parts of, as checkpoints see it: layers in parts, some of its layers, or
// both.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parallel/parameter_parts.h"
#include "sullae/parallel/tensor_parallel.h"

namespace sullae {

/// What the optimizer of a rank is of, in the place of a parameter.
struct Updated {
  torch::Tensor tensor;  ///< undefined where it has no elements
  /// Which of what the rank has of the parameter, as they lie in memory, where ranks that have the
  /// same divide them; none: all.
  std::optional<IndexRange> elements = {};
};
/// By the names of the parameters.
using UpdatedByName = std::map<std::string, Updated>;

/// All of each.
UpdatedByName updated_of(const std::map<std::string, torch::Tensor>& masters);

/// What a rank has of a parameter.
struct OwnParameter {
  std::string name;
  torch::Tensor tensor;                    ///< the module's
  Updated updated;                         ///< that, its float32 master, or some of either
  std::optional<ParameterPart> part = {};  ///< none: all of it
};

/// All of a module's, trained or not, each once; `called` stands, with a dot, before their names,
/// and `updated` are by these.
void add_parameters(std::vector<OwnParameter>& to, const torch::nn::Module& module,
                    const UpdatedByName& updated, const std::string& called = {});

/// All parameters of a model, of which each rank has some, whole or in parts, and updates what it
/// has, or some of that. A rank has a tensor without memory for each that is another's. In the
/// order of ranks until put_in_order().
class ModelParts final : public ParameterParts {
 public:
  /// `own`: this rank's. Those of one name are one parameter's: its parts, or all alike. Collective
  /// over `world`. Throws InputError, on every rank, for parameters that have gaps, or whose parts
  /// do not make up a whole.
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
  /// Of what is updated its owner makes parameters.
  void refresh() override {}
  /// all() becomes what `names` are in the order of; others of these are passed over.
  void put_in_order(const std::vector<std::string>& names);

 private:
  /// What a rank has: these ranges along the dimension, and of their elements those that it
  /// updates.
  struct Holder {
    int rank = 0;
    std::vector<IndexRange> ranges = {};
    std::optional<IndexRange> elements = {};
  };
  struct Division {
    std::optional<std::int64_t> dim = {};  // along which; none: who has it has all of it
    std::vector<Holder> holders = {};
  };

  World world_;
  std::vector<PlannedParameter> all_;
  std::vector<torch::Tensor> outlines_;
  std::vector<torch::Tensor> pieces_;
  std::vector<Division> divisions_;
};

}  // namespace sullae
