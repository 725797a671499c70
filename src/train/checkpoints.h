// The checkpoints of a training run: one file an epoch in a directory, the newest whole one to
// resume from.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sullae/torch.h"

namespace sullae::train {

/// Used by one rank.
class Checkpoints {
 public:
  /// Makes the directory. Throws Error where it cannot be made.
  Checkpoints(std::filesystem::path directory, std::string name, int keep);

  /// Writes the checkpoint of `epoch` and then removes those older than the newest `keep`.
  std::filesystem::path save(int epoch, const torch::nn::Module& module,
                             const torch::optim::Optimizer& optimizer, CheckpointMetadata metadata);

  /// Loads the newest that is whole, with a warning for each damaged one that is passed over. Empty
  /// where there is none. Throws InputError where all are damaged, or the newest whole one belongs
  /// to another model.
  std::optional<CheckpointMetadata> load_newest(torch::nn::Module& module,
                                                torch::optim::Optimizer& optimizer) const;

 private:
  /// Newest first.
  std::vector<std::filesystem::path> list() const;

  std::filesystem::path directory_;
  std::string name_;
  int keep_;
};

}  // namespace sullae::train
