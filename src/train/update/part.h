// How the ranks that have the same parts of a model update them: the seam, and who stands behind
// it.
#pragma once

#include <torch/nn/module.h>
#include <torch/ordered_dict.h>
#include <torch/types.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "sullae/sullae.h"
#include "sullae/torch/checkpoint.h"
#include "train/options.h"
#include "train/ranks.h"
#include "train/update/weight_update.h"

namespace sullae::train {

/// Used by the training thread.
class Part {
 public:
  virtual ~Part() = default;

  /// Parameters of these names are to be divided as other stages divide theirs of these names.
  /// Before update() is entered.
  virtual void divide_alike(const std::set<std::string>& names) = 0;
  /// As if the parts were a model. It is entered with the ranks that have the same ones.
  virtual WeightUpdate& update() = 0;
  /// What this rank's optimizer is of, by the names of the parameters; after reduce() these have
  /// gradients.
  virtual torch::OrderedDict<std::string, torch::Tensor> updated() = 0;

  /// What the ranks have together, as WeightUpdate has it: `file` and `metadata` are rank 0's.
  /// Collective over all ranks.
  virtual void save(const std::filesystem::path& file, CheckpointMetadata metadata) = 0;
  virtual void save_weights(const std::filesystem::path& file, CheckpointMetadata metadata) = 0;
  virtual void load(const std::filesystem::path& file) = 0;
};

/// Each rank has the whole optimizer of its parts.
std::unique_ptr<Part> make_replicated_part(torch::nn::Module& model, const TrainOptions& options,
                                           const Ranks& ranks);
/// Each rank has a part of it: --shard.
std::unique_ptr<Part> make_sharded_part(torch::nn::Module& model, const TrainOptions& options,
                                        const Ranks& ranks);

}  // namespace sullae::train
