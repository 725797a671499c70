#include "parallel/checkpoint/checkpoint.h"

#include "parallel/tensor/module_parts.h"
#include "sullae/parallel/tensor_parallel.h"

namespace sullae {

void save_checkpoint(const std::filesystem::path& file, const torch::nn::Module& module,
                     const PartsOptimizer& optimizer, const World& world,
                     const CheckpointOptions& options) {
  ModuleParts parts(module, optimizer.masters, world);
  const Sharded own{optimizer.optimizer, optimizer.make};
  save_parts(file, module, parts, &own, options);
}

void save_weights(const std::filesystem::path& file, const torch::nn::Module& module,
                  const World& world, const CheckpointOptions& options,
                  const std::map<std::string, torch::Tensor>& masters) {
  ModuleParts parts(module, masters, world);
  save_parts(file, module, parts, nullptr, options);
}

CheckpointMetadata load_checkpoint(const std::filesystem::path& file, torch::nn::Module& module,
                                   const PartsOptimizer& optimizer, const World& world) {
  ModuleParts parts(module, optimizer.masters, world);
  const Sharded own{optimizer.optimizer, optimizer.make};
  return load_parts(file, module, parts, &own);
}

CheckpointMetadata load_weights(const std::filesystem::path& file, torch::nn::Module& module,
                                const World& world) {
  ModuleParts parts(module, {}, world);
  return load_parts(file, module, parts, nullptr);
}

}  // namespace sullae
