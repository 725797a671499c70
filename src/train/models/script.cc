#include "train/models/script.h"

#include <algorithm>

namespace sullae::train {

std::string script_name(const std::string& name) {
  std::string result = name;
  std::ranges::replace(result, '.', '_');
  return result;
}

torch::jit::Module make_script(const torch::nn::Module& module, const std::string& source) {
  torch::jit::Module script("sullae_model");
  for (const auto& item : module.named_parameters())
    script.register_parameter(script_name(item.key()), item.value().detach(), /*is_buffer=*/false);
  for (const auto& item : module.named_buffers())
    script.register_buffer(script_name(item.key()), item.value());
  script.define(source);
  return script;
}

}  // namespace sullae::train
