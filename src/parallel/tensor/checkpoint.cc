#include "parallel/checkpoint/checkpoint.h"

#include "parallel/tensor/joined_model.h"
#include "sullae/parallel/tensor_parallel.h"

namespace sullae {

void save_checkpoint(const std::filesystem::path& file, const torch::nn::Module& module,
                     const PartsOptimizer& optimizer, const World& world,
                     const CheckpointOptions& options) {
  JoinedModel model({{module}}, optimizer.masters, world);
  model.gather_buffers();
  const Sharded own{optimizer.optimizer, optimizer.make};
  save_parts(file, model.module(), model.parts(), &own, options);
}

void save_weights(const std::filesystem::path& file, const torch::nn::Module& module,
                  const World& world, const CheckpointOptions& options,
                  const std::map<std::string, torch::Tensor>& masters) {
  JoinedModel model({{module}}, masters, world);
  model.gather_buffers();
  save_parts(file, model.module(), model.parts(), nullptr, options);
}

CheckpointMetadata load_checkpoint(const std::filesystem::path& file, torch::nn::Module& module,
                                   const PartsOptimizer& optimizer, const World& world) {
  JoinedModel model({{module}}, optimizer.masters, world);
  const Sharded own{optimizer.optimizer, optimizer.make};
  return load_parts(file, model.module(), model.parts(), &own);
}

CheckpointMetadata load_weights(const std::filesystem::path& file, torch::nn::Module& module,
                                const World& world) {
  JoinedModel model({{module}}, {}, world);
  return load_parts(file, model.module(), model.parts(), nullptr);
}

}  // namespace sullae
