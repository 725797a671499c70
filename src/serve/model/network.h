// TorchScript compiled for inference.
#pragma once

#include <torch/script.h>

#include <string>
#include <vector>

#include "serve/model/config.h"

namespace sullae::serve {

/// The device of `config`. Throws InputError where it is not there.
torch::Device device_of(const ModelConfig& config);

/// Any thread may call run(), several at once.
class Network {
 public:
  /// Freezes `module` on the device of `config`: what only training needs is removed, weights become constants,
  /// norms are folded into the convolutions before them. Throws InputError for a device that is not there, and
  /// Error.
  Network(torch::jit::Module module, const ModelConfig& config);

  /// Tensors in the host's memory, as they come and go. One an output, whether the module returns a tensor, or a
  /// tuple, list or dictionary of them, whose keys are the names that the configuration gives to outputs. Throws RequestError (invalid) with what libtorch says:
  /// numbers of a request may be out of the model's range.
  std::vector<torch::Tensor> run(std::vector<torch::jit::IValue> inputs) const;

 private:
  mutable torch::jit::Module module_;
  torch::Device device_;
  std::vector<std::string> outputs_;  // as the configuration names them
};

}  // namespace sullae::serve
