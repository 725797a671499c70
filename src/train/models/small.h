// Small networks for small images.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "train/task.h"

namespace sullae::train {

/// Two convolutions and two linear layers for grey images of 28 × 28: [batch, 1, 28, 28] -> [batch,
/// 10].
struct MnistNetImpl : torch::nn::Cloneable<MnistNetImpl>, Classifier {
  MnistNetImpl() { reset(); }
  void reset() override;
  torch::Tensor scores(const Batch& batch) override;
  torch::jit::Module script() const override;

  torch::nn::Conv2d first{nullptr}, second{nullptr};
  torch::nn::Linear hidden{nullptr}, output{nullptr};
};

struct MlpOptions {
  std::int64_t inputs = 784;
  std::vector<std::int64_t> hidden = {512, 256};
  std::int64_t classes = 10;
  double dropout = 0.2;
};

/// A multilayer perceptron: [batch, …] -> [batch, classes].
struct MlpImpl : torch::nn::Cloneable<MlpImpl>, Classifier {
  explicit MlpImpl(MlpOptions options) : options_(std::move(options)) { reset(); }
  void reset() override;
  torch::Tensor scores(const Batch& batch) override;
  torch::jit::Module script() const override;

 private:
  MlpOptions options_;
  torch::nn::Sequential layers_{nullptr};
};

}  // namespace sullae::train
