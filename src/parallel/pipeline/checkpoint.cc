// Checkpoints of a model in stages: who has a stage writes it, and gets it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <sstream>

#include "parallel/pipeline/stages.h"
#include "parallel/sharded_within.h"
#include "parallel/tensor/joined_model.h"
#include "parallel/tensor/updated_pieces.h"
#include "sullae/parallel/pipeline.h"
#include "torch/agreement.h"

namespace sullae {
namespace {

using pipeline::Stages;

void check_all_stages(const Stages& stages, const World& world) {
  std::string mine;
  for (int chunk = 0; chunk < stages.chunks(); ++chunk)
    mine += fmt::format("{} ", stages.stage_of(chunk));
  std::set<int> there;
  for (const auto& text : allgather_texts(world, mine)) {
    std::istringstream numbers(text);
    for (int stage = 0; numbers >> stage;) there.insert(stage);
  }
  if (static_cast<int>(there.size()) == stages.count()) return;
  throw InputError(
      fmt::format("a checkpoint of a pipeline: the ranks of this world have stages {} of {}: "
                  "expected the pipeline's world, or, of stages with layers in parts, "
                  "mesh.across({{\"pp\", \"tp\"}})",
                  fmt::join(there, ", "), stages.count()));
}

JoinedModel joined(const Stages& stages, const UpdatedByName& updated, const World& world) {
  check_all_stages(stages, world);
  std::vector<OwnModule> own;
  for (int chunk = 0; chunk < stages.chunks(); ++chunk) {
    const PipelineStage& stage = stages.own()[static_cast<std::size_t>(chunk)];
    own.push_back({*stage.module, stage.name, stages.stage_of(chunk)});
  }
  return {own, updated, world};
}

JoinedModel joined(const Stages& stages, const ParameterStore& store, const World& world) {
  return joined(stages, pieces_by_name(stages.parameters(), store, world), world);
}

}  // namespace

void save_checkpoint(const std::filesystem::path& file, const Pipeline& pipeline,
                     const PartsOptimizer& optimizer, const World& world,
                     const CheckpointOptions& options) {
  joined(pipeline.stages(), updated_of(optimizer.masters), world).save(file, &optimizer, options);
}

void save_weights(const std::filesystem::path& file, const Pipeline& pipeline, const World& world,
                  const CheckpointOptions& options,
                  const std::map<std::string, torch::Tensor>& masters) {
  joined(pipeline.stages(), updated_of(masters), world).save(file, nullptr, options);
}

CheckpointMetadata load_checkpoint(const std::filesystem::path& file, Pipeline& pipeline,
                                   const PartsOptimizer& optimizer, const World& world) {
  return joined(pipeline.stages(), updated_of(optimizer.masters), world).load(file, &optimizer);
}

CheckpointMetadata load_weights(const std::filesystem::path& file, Pipeline& pipeline,
                                const World& world) {
  return joined(pipeline.stages(), UpdatedByName(), world).load(file, nullptr);
}

void save_checkpoint(const std::filesystem::path& file, const Pipeline& pipeline,
                     ShardedOptimizer& optimizer, const World& world,
                     const CheckpointOptions& options) {
  const auto [store, sharded] = within(optimizer);
  const auto parts = as_parts(sharded);
  joined(pipeline.stages(), store, world).save(file, &parts, options);
}

void save_weights(const std::filesystem::path& file, const Pipeline& pipeline,
                  ShardedOptimizer& optimizer, const World& world,
                  const CheckpointOptions& options) {
  joined(pipeline.stages(), within(optimizer).store, world).save(file, nullptr, options);
}

CheckpointMetadata load_checkpoint(const std::filesystem::path& file, Pipeline& pipeline,
                                   ShardedOptimizer& optimizer, const World& world) {
  const auto [store, sharded] = within(optimizer);
  const auto parts = as_parts(sharded);
  auto metadata = joined(pipeline.stages(), store, world).load(file, &parts);
  store.refresh();
  return metadata;
}

}  // namespace sullae
