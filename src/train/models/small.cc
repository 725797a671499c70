#include "train/models/small.h"

#include <fmt/format.h>

#include "train/models/script.h"

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

torch::jit::Module MnistNetImpl::script() const {
  return make_script(*this, R"(
def forward(self, x):
    x = torch.relu(torch.max_pool2d(torch.conv2d(x, self.first_weight, self.first_bias), [2, 2]))
    x = torch.relu(torch.max_pool2d(torch.conv2d(x, self.second_weight, self.second_bias), [2, 2]))
    x = torch.relu(torch.linear(torch.flatten(x, 1), self.hidden_weight, self.hidden_bias))
    return torch.linear(x, self.output_weight, self.output_bias)
)");
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

torch::jit::Module MlpImpl::script() const {
  std::string source = "def forward(self, x):\n    x = torch.flatten(x, 1)\n";
  constexpr std::size_t kModulesALayer = 3;  // linear, rectifier, dropout
  for (std::size_t layer = 0; layer <= options_.hidden.size(); ++layer) {
    const auto linear = fmt::format("torch.linear(x, self.layers_{0}_weight, self.layers_{0}_bias)",
                                    kModulesALayer * layer);
    source += layer < options_.hidden.size() ? fmt::format("    x = torch.relu({})\n", linear)
                                             : fmt::format("    return {}\n", linear);
  }
  return make_script(*this, source);
}

}  // namespace sullae::train
