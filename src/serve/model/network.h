// A network that is computed, whatever it was made by.
#pragma once

#include <torch/script.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/model/config.h"

namespace sullae::serve {

/// Any thread may call run(), several at once.
class Network {
 public:
  virtual ~Network() = default;

  /// Tensors in the host's memory, as they come and go. One an output, whether the network returns
  /// a tensor, or a tuple, list or dictionary of them. Throws RequestError (invalid) with what
  /// libtorch says: numbers of a request may be out of the network's range.
  virtual std::vector<torch::Tensor> run(std::vector<torch::jit::IValue> inputs) const = 0;
};

/// Freezes `module` on the device of `config`: what only training needs is removed, weights become
/// constants, norms are folded into the convolutions before them. A dictionary's keys are the names
/// that the configuration gives to outputs. Throws InputError for a device that is not there, and
/// Error.
std::unique_ptr<Network> make_script_network(torch::jit::Module module, const ModelConfig& config);

/// A package that AOTInductor has compiled, for the device of `config`; so many `threads` compute
/// it at a time. What it takes it looks at itself. Throws InputError for a file that is none, was
/// compiled for another device, or by another libtorch, and where this build's libtorch has no
/// AOTInductor.
std::unique_ptr<Network> make_package_network(const std::filesystem::path& file,
                                              const ModelConfig& config, int threads);

/// The device of `config`. Throws InputError where it is not there.
torch::Device device_of(const ModelConfig& config);

/// So many threads compute a model at once.
int instances_of(const ModelConfig& config);

/// Throws RequestError (invalid) with what is said in the last of `trace`'s lines that is not
/// empty.
[[noreturn]] void refuse_computing(std::string_view trace);

}  // namespace sullae::serve
