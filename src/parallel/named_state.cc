#include "parallel/named_state.h"

#include <torch/torch.h>

#include <functional>

namespace sullae {
namespace {

// That of this name in `parent`.
std::shared_ptr<torch::nn::Module> child_of(torch::nn::Module& parent, const std::string& name) {
  const auto children = parent.named_children();
  if (const auto* const found = children.find(name)) return *found;
  return parent.register_module(name, std::make_shared<torch::nn::Module>(name));
}

}  // namespace

std::string name_in(const std::string& module, const std::string& name) {
  return module.empty() ? name : module + '.' + name;
}

std::vector<NamedState> state_of(const torch::nn::Module& module) {
  using Kind = NamedState::Kind;
  std::vector<NamedState> state;
  const std::function<void(const std::string&, const torch::nn::Module&)> add =
      [&](const std::string& name, const torch::nn::Module&) {
        if (!name.empty()) state.push_back({.kind = Kind::module, .name = name});
      };
  module.apply(add);
  for (const auto& item : module.named_parameters())
    state.push_back({Kind::parameter, item.key(), item.value().detach()});
  for (const auto& item : module.named_buffers())
    state.push_back({Kind::buffer, item.key(), item.value()});
  return state;
}

std::shared_ptr<torch::nn::Module> module_of(const std::vector<NamedState>& state) {
  auto root = std::make_shared<torch::nn::Module>("whole");
  for (const NamedState& one : state) {
    auto parent = root;
    std::string rest = one.name;
    for (auto dot = rest.find('.'); dot != std::string::npos; dot = rest.find('.')) {
      parent = child_of(*parent, rest.substr(0, dot));
      rest = rest.substr(dot + 1);
    }
    switch (one.kind) {
      case NamedState::Kind::parameter:
        parent->register_parameter(rest, one.tensor, one.tensor.requires_grad());
        break;
      case NamedState::Kind::buffer:
        parent->register_buffer(rest, one.tensor);
        break;
      case NamedState::Kind::module:
        child_of(*parent, rest);
        break;
    }
  }
  return root;
}

}  // namespace sullae
