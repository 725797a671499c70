#include "parallel/tensor/joined_model.h"
#include "sullae/parallel/tensor_parallel.h"

namespace sullae {

void save_checkpoint(const std::filesystem::path& file, const torch::nn::Module& module,
                     const PartsOptimizer& optimizer, const World& world,
                     const CheckpointOptions& options) {
  JoinedModel({{module}}, updated_of(optimizer.masters), world).save(file, &optimizer, options);
}

void save_weights(const std::filesystem::path& file, const torch::nn::Module& module,
                  const World& world, const CheckpointOptions& options,
                  const std::map<std::string, torch::Tensor>& masters) {
  JoinedModel({{module}}, updated_of(masters), world).save(file, nullptr, options);
}

CheckpointMetadata load_checkpoint(const std::filesystem::path& file, torch::nn::Module& module,
                                   const PartsOptimizer& optimizer, const World& world) {
  return JoinedModel({{module}}, updated_of(optimizer.masters), world).load(file, &optimizer);
}

CheckpointMetadata load_weights(const std::filesystem::path& file, torch::nn::Module& module,
                                const World& world) {
  return JoinedModel({{module}}, {}, world).load(file, nullptr);
}

}  // namespace sullae
