// What a model is trained for: a loss, and what is measured of it.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <string>
#include <vector>

#include "sullae/train/data.h"

namespace sullae::train {

/// A number that is measured on the test set besides the loss.
struct Metric {
  /// Of letters, digits and underscores: "accuracy".
  std::string name;
  bool higher_is_better = true;
  /// A part of 1 that is shown as so many per cent.
  bool in_percent = false;
  /// What becomes of the mean over all that was counted; null leaves it.
  double (*of_mean)(double) = nullptr;
};

/// Of a batch; those of all batches and ranks are added up.
struct Sum {
  double sum = 0;
  double count = 0;
};

struct Tally {
  Sum loss;
  std::vector<Sum> metrics;  ///< in the order of Objective::metrics()
};

/// Its functions may be called by several threads, each with a copy of the model of its own
/// (TrainOptions::scale_up).
class Objective {
 public:
  virtual ~Objective() = default;
  /// The mean loss over the batch's samples, with its graph: one number. Several losses are added
  /// up here. So that training on many ranks is training on one, a sample's loss depends on no
  /// other sample of the batch.
  virtual torch::Tensor loss(torch::nn::Module& model, const Batch& batch) const = 0;
  /// The first one decides which checkpoint is the best; without any, the test loss does.
  virtual std::vector<Metric> metrics() const { return {}; }
  /// Of a batch for testing. Without one of its own, an objective measures its loss.
  virtual Tally measure(torch::nn::Module& model, const Batch& batch) const;
};

/// What a model says of a batch.
using Forward = std::function<torch::Tensor(torch::nn::Module& model, const Batch& batch)>;

/// Of a model whose forward() takes the batch's first input.
template <class Net>
Forward forward_of() {
  return [](torch::nn::Module& model, const Batch& batch) {
    return dynamic_cast<Net&>(model).forward(batch.inputs.at(0));
  };
}

/// Cross-entropy of scores [batch, classes], before softmax, and classes [batch] int64. Measures
/// "accuracy".
class Classification : public Objective {
 public:
  explicit Classification(Forward forward, double label_smoothing = 0)
      : forward_(std::move(forward)), label_smoothing_(label_smoothing) {}
  torch::Tensor loss(torch::nn::Module& model, const Batch& batch) const override;
  std::vector<Metric> metrics() const override;
  Tally measure(torch::nn::Module& model, const Batch& batch) const override;

 private:
  Forward forward_;
  double label_smoothing_;
};

/// Mean squared error of numbers [batch, …] and labels of the same shape. Measures "rmse" and
/// "mae": the root of the mean squared, and the mean absolute, error.
class Regression : public Objective {
 public:
  explicit Regression(Forward forward) : forward_(std::move(forward)) {}
  torch::Tensor loss(torch::nn::Module& model, const Batch& batch) const override;
  std::vector<Metric> metrics() const override;
  Tally measure(torch::nn::Module& model, const Batch& batch) const override;

 private:
  Forward forward_;
};

/// Cross-entropy of each next token: scores [batch, time, tokens] and tokens [batch, time] int64,
/// where kNoToken is not counted. A text's loss is the mean over its tokens. Measures, over all
/// tokens, "perplexity" and "accuracy".
class LanguageModelling : public Objective {
 public:
  static constexpr std::int64_t kNoToken = -100;

  explicit LanguageModelling(Forward forward) : forward_(std::move(forward)) {}
  torch::Tensor loss(torch::nn::Module& model, const Batch& batch) const override;
  std::vector<Metric> metrics() const override;
  Tally measure(torch::nn::Module& model, const Batch& batch) const override;

 private:
  Forward forward_;
};

}  // namespace sullae::train
