// Parameters in buckets that are divided among ranks: where each element is, and how it gets
// everywhere.
#pragma once

#include <torch/ordered_dict.h>
#include <torch/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/parameter_store.h"
#include "parallel/shard_exchange.h"
#include "parallel/sharded_reduction.h"
#include "sullae/parallel/sharded_optimizer.h"
#include "sullae/sullae.h"
#include "torch/gradient_reducer.h"
#include "torch/trained_parameters.h"

namespace sullae {

/// Stages 1 and 2. Used by the thread that trains.
class ShardedParameters final : public ParameterStore {
 public:
  /// Moves them to memory of its own. Collective.
  ShardedParameters(const torch::OrderedDict<std::string, torch::Tensor>& parameters,
                    const ShardedOptimizerOptions& options, const World& world);
  ~ShardedParameters() override;
  ShardedParameters(const ShardedParameters&) = delete;
  ShardedParameters& operator=(const ShardedParameters&) = delete;

  const World& world() const override { return world_; }
  const std::vector<PlannedParameter>& all() const override { return all_; }
  bool is_whole(std::size_t parameter) const override;
  std::vector<Part> parts_of(std::size_t parameter) const override;
  const torch::Tensor& piece_of(std::size_t parameter) const override;
  bool is_trained(std::size_t parameter) const override { return numbers_[parameter].has_value(); }
  void reduce() override;
  void clear_gradients() override;
  void publish() override;
  void refresh() override { publish(); }
  void take_weights(const torch::OrderedDict<std::string, torch::Tensor>& weights) override;

 private:
  void make_alone();
  std::unique_ptr<BucketReduction> make_reduction(const ReductionRequest& request);
  void move_in(ShardedBucket& bucket);
  void make_pieces(ShardedBucket& bucket);

  ShardedOptimizerOptions options_;
  World world_;
  std::vector<PlannedParameter> all_;                // each once, as they were given
  std::vector<std::optional<std::size_t>> numbers_;  // of those, among the trained ones
  std::vector<PlannedParameter> parameters_;         // trained
  std::vector<PlannedParameter> frozen_;
  std::vector<torch::Tensor> pieces_;  // by trained parameter
  std::vector<std::pair<std::size_t, std::size_t>>
      place_;  // by trained parameter: its bucket, and where there
  std::vector<std::unique_ptr<ShardedBucket>> buckets_;  // stay where they are
  std::optional<ShardExchange> exchange_;                // with others
  std::optional<GradientBuffers> buffers_;
  std::shared_ptr<GradientReducer> reducer_;  // reads what is above
};

}  // namespace sullae
