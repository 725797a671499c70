// Optimizers by name.
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/ordered_dict.h>

#include <memory>
#include <string>
#include <vector>

#include "train/options.h"

namespace sullae::train {

std::vector<std::string> optimizer_names();

/// One that updates `parameters`; biases and norms (one dimension) are in a group without weight
/// decay, unless --decay-all. Throws InputError.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(
    const TrainOptions& options, const torch::OrderedDict<std::string, torch::Tensor>& parameters);

/// Keeps an optimizer's options, while a checkpoint is loaded that has others: those of this run's
/// flags count.
class KeptOptions {
 public:
  /// `optimizer` must outlive this object.
  explicit KeptOptions(torch::optim::Optimizer& optimizer);
  ~KeptOptions();
  KeptOptions(const KeptOptions&) = delete;
  KeptOptions& operator=(const KeptOptions&) = delete;

 private:
  torch::optim::Optimizer& optimizer_;
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options_;
};

/// Gives the state of each parameter of `from` to the one in its place in `to`.
void move_optimizer_state(torch::optim::Optimizer& from, torch::optim::Optimizer& to);

}  // namespace sullae::train
