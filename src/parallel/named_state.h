// What a module has, apart from what it computes.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

namespace sullae {

struct NamedState {
  enum class Kind : char { parameter = 'p', buffer = 'b', module = 'm' };
  Kind kind = Kind::parameter;
  std::string name;      ///< with those of the modules that it is in: "0.weight"
  torch::Tensor tensor;  ///< none of a module
};

/// What a module's `name` is called where the module is called `module`; empty: it is all there is.
std::string name_in(const std::string& module, const std::string& name);

/// Modules, too: checkpoints have them, even those without parameters.
std::vector<NamedState> state_of(const torch::nn::Module& module);

/// A module that has all that, by those names, and computes nothing: what it writes is what the
/// module that it is of would write.
std::shared_ptr<torch::nn::Module> module_of(const std::vector<NamedState>& state);

}  // namespace sullae
