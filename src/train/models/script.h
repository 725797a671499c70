// Models as TorchScript, which is what is served.
#pragma once

#include <torch/nn/module.h>
#include <torch/script.h>

#include <string>

namespace sullae::train {

/// A TorchScript module that shares the parameters and buffers of `module`, with `_` for the dots
/// in their names, and the method `forward` that `source` defines.
torch::jit::Module make_script(const torch::nn::Module& module, const std::string& source);

/// The name under which make_script() puts a parameter.
std::string script_name(const std::string& name);

}  // namespace sullae::train
