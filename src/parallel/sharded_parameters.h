// Parameters in buckets that are divided among ranks: where each element is, and how it gets everywhere.
#pragma once

#include <torch/ordered_dict.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/sharded_reduction.h"
#include "sullae/parallel/sharded_optimizer.h"
#include "sullae/sullae.h"
#include "torch/gradient_reducer.h"
#include "torch/trained_parameters.h"

namespace sullae {

/// A range of a parameter's elements, as they lie in memory, and the rank that has them.
struct Part {
  int rank = 0;
  std::size_t from = 0;
  std::size_t to = 0;
};

/// What weights of a type are updated in.
torch::ScalarType updated_type(torch::ScalarType type);

/// Used by the thread that trains.
class ShardedParameters {
 public:
  /// Moves them to memory of its own. Collective.
  ShardedParameters(const torch::OrderedDict<std::string, torch::Tensor>& parameters,
                    const ShardedOptimizerOptions& options, const World& world);
  ~ShardedParameters();
  ShardedParameters(const ShardedParameters&) = delete;
  ShardedParameters& operator=(const ShardedParameters&) = delete;

  const World& world() const { return world_; }
  /// Those that are trained, in their order.
  const std::vector<PlannedParameter>& all() const { return parameters_; }
  /// The parts of one, in the order of elements.
  std::vector<Part> parts_of(std::size_t parameter) const;
  /// What this rank updates of one, in float32 or wider: as many dimensions as the parameter, of which all but the last are
  /// 1. Undefined where it has nothing of it.
  const torch::Tensor& piece_of(std::size_t parameter) const { return pieces_[parameter]; }
  torch::OrderedDict<std::string, torch::Tensor> pieces() const;

  /// Waits until what is updated has its gradients, unless that was done since the last backward; the parameters have none then.
  void reduce();
  void clear_gradients();
  /// What was updated becomes the parameters, on all ranks, and another backward may follow. Collective.
  void publish();
  /// What is updated becomes that of the whole `weights`, by name.
  void take_weights(const torch::OrderedDict<std::string, torch::Tensor>& weights);

 private:
  void make_alone();
  std::unique_ptr<BucketReduction> make_reduction(const ReductionRequest& request);
  void move_in(ShardedBucket& bucket);
  void make_pieces(ShardedBucket& bucket);

  ShardedOptimizerOptions options_;
  World world_;
  std::vector<PlannedParameter> parameters_;
  std::vector<PlannedParameter> frozen_;
  std::vector<torch::Tensor> pieces_;  // by parameter
  std::vector<std::pair<std::size_t, std::size_t>>
      place_;  // by parameter: its bucket, and where there
  std::vector<std::unique_ptr<ShardedBucket>> buckets_;  // stay where they are
  std::optional<GradientBuffers> buffers_;
  std::shared_ptr<GradientReducer> reducer_;  // reads what is above
};

}  // namespace sullae
