// A model that is whole on no rank, as checkpoints see it.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallel/tensor/model_parts.h"
#include "sullae/parallel/parts_optimizer.h"
#include "sullae/torch/checkpoint.h"

namespace sullae {

/// A module of a rank's, which has some of the model's layers, or parts of them.
struct OwnModule {
  const torch::nn::Module& module;
  std::string name = {};  ///< in the model; empty: it is all that this rank has of it
  int stage = 0;  ///< those of lower ones come first, and, of one stage, those of lower ranks
};

/// All ranks' modules as one, whose parameters are in the order of one process's: those of a module
/// before those of the modules in it, and these as they come first by stage and rank. What is a
/// rank's own is its own there; of others' parameters there are tensors without memory, and of
/// their buffers copies.
class JoinedModel {
 public:
  /// `updated`: see add_parameters(). Collective over `world`. Throws as ModelParts.
  JoinedModel(const std::vector<OwnModule>& own, const UpdatedByName& updated, const World& world);

  /// See save_parts() and load_parts(); `optimizer`: null for weights alone. Collective.
  void save(const std::filesystem::path& file, const PartsOptimizer* optimizer,
            const CheckpointOptions& options);
  CheckpointMetadata load(const std::filesystem::path& file, const PartsOptimizer* optimizer);

 private:
  void gather_buffers();

  World world_;
  std::optional<ModelParts> parts_;
  std::vector<std::pair<torch::Tensor, int>> buffers_;  // and the first rank that has it
  std::shared_ptr<torch::nn::Module> module_;
};

}  // namespace sullae
