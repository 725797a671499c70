#include "train/models/small.h"

namespace sullae::train {

void MnistNetImpl::reset() {
  first = register_module("first", torch::nn::Conv2d(1, 16, 5));
  second = register_module("second", torch::nn::Conv2d(16, 32, 5));
  hidden = register_module("hidden", torch::nn::Linear(32 * 4 * 4, 128));
  output = register_module("output", torch::nn::Linear(128, 10));
}

torch::Tensor MnistNetImpl::scores(const Batch& batch) {
  auto x = torch::relu(torch::max_pool2d(first(batch.inputs[0]), 2));
  x = torch::relu(torch::max_pool2d(second(x), 2));
  return output(torch::relu(hidden(x.flatten(1))));
}

void MlpImpl::reset() {
  torch::nn::Sequential layers;
  std::int64_t inputs = options_.inputs;
  for (const std::int64_t size : options_.hidden) {
    layers->push_back(torch::nn::Linear(inputs, size));
    layers->push_back(torch::nn::ReLU());
    layers->push_back(torch::nn::Dropout(options_.dropout));
    inputs = size;
  }
  layers->push_back(torch::nn::Linear(inputs, options_.classes));
  layers_ = register_module("layers", layers);
}

torch::Tensor MlpImpl::scores(const Batch& batch) {
  return layers_->forward(batch.inputs[0].flatten(1));
}

}  // namespace sullae::train
