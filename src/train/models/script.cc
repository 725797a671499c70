#include "train/models/script.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sullae/error.h"

namespace sullae::train {

std::string script_name(const std::string& name) {
  std::string result = name;
  std::ranges::replace(result, '.', '_');
  return result;
}

torch::jit::Module make_script(const torch::nn::Module& module, const std::string& source) {
  torch::jit::Module script("sullae_model");
  std::map<std::string, std::string> names;
  const auto name_of = [&](const std::string& key) {
    const auto [found, is_new] = names.emplace(script_name(key), key);
    if (!is_new)
      throw InputError(
          fmt::format("TorchScript: '{}' and '{}' are both called {}: expected other names",
                      found->second, key, found->first));
    return found->first;
  };
  for (const auto& item : module.named_parameters())
    script.register_parameter(name_of(item.key()), item.value().detach(), /*is_buffer=*/false);
  for (const auto& item : module.named_buffers())
    script.register_buffer(name_of(item.key()), item.value());
  script.define(source);
  return script;
}

}  // namespace sullae::train
