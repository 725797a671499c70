// The seam between the trainer and what it trains: a model with its data, and the recipe that makes
// it.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "train/options.h"

namespace sullae::train {

enum class Split { train, test };

/// A batch's mean loss, with its graph, and how many samples were classified right.
struct BatchResult {
  torch::Tensor loss;
  std::int64_t correct = 0;
};

/// A model and its data. Used by the training thread.
class Task {
 public:
  virtual ~Task() = default;
  virtual torch::nn::Module& model() = 0;
  virtual std::size_t size(Split split) const = 0;
  /// Runs the model on samples of a split. The trainer has set the model's mode.
  virtual BatchResult run(Split split, std::span<const std::size_t> samples) = 0;
  /// Where the data came from, for people.
  virtual std::string data_description() const = 0;
};

/// A numeric flag of a recipe's own.
struct ExtraOption {
  std::string flag;  ///< without dashes
  double value = 0;
  std::string help;
};

/// A ready model with its defaults, trained by `sullae train <name>`.
class Recipe {
 public:
  virtual ~Recipe() = default;
  virtual std::string name() const = 0;
  virtual std::string summary() const = 0;
  virtual TrainOptions defaults() const = 0;
  virtual std::vector<ExtraOption> extra_options() const { return {}; }
  virtual std::unique_ptr<Task> make(const TrainOptions& options) const = 0;
};

/// All recipes. A new one is a file and a line in recipes.cc.
const std::vector<std::unique_ptr<Recipe>>& recipes();

}  // namespace sullae::train
