#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>

#include "parallel/agreement.h"
#include "parallel/pipeline/layer_cost.h"
#include "parallel/pipeline/partition.h"
#include "sullae/parallel/pipeline.h"

namespace sullae {
namespace {

using pipeline::LayerCost;

// Rank 0's.
std::vector<LayerCost> measured(const torch::nn::Sequential& layers, const torch::Tensor& sample,
                                const World& world, const DivisionOptions& options) {
  std::vector<LayerCost> costs(layers->size());
  std::string failure;
  if (world.rank() == 0) {
    try {
      costs = pipeline::measure(layers, sample, options.bytes_per_parameter_byte);
    } catch (const std::exception& error) {  // every rank is told
      failure = error.what();
    }
  }
  failure = texts_of_all(world, failure)[0];
  if (!failure.empty()) throw InputError(failure);
  world.broadcast(costs.data(), costs.size() * 3, DataType::float64, 0);
  return costs;
}

// Modules keep their names, so that parameters do.
torch::nn::Sequential part_of(const torch::nn::Sequential& layers, std::size_t from,
                              std::size_t to) {
  torch::nn::Sequential part;
  const auto names = layers->named_children().keys();
  for (std::size_t i = from; i < to; ++i)
    part->push_back(names[i], *(layers->begin() + static_cast<std::ptrdiff_t>(i)));
  return part;
}

}  // namespace

std::vector<PipelineStage> divide(const torch::nn::Sequential& layers, const torch::Tensor& sample,
                                  const World& world, const DivisionOptions& options) {
  const std::string how =
      fmt::format("{} layers, {} stages a rank", layers->size(), options.stages_per_rank);
  check_same_on_all(
      world, "how to divide a model",
      fmt::format("{}, {} bytes, {} alive", how, options.memory_bytes, options.alive));
  const auto stages = static_cast<std::size_t>(std::max(options.stages_per_rank, 0)) *
                      static_cast<std::size_t>(world.size());
  if (stages == 0 || layers->size() < stages)
    throw InputError(
        fmt::format("divide: {} for {} ranks: expected at least a stage a rank, and a "
                    "layer a stage",
                    how, world.size()));
  const auto costs = measured(layers, sample, world, options);
  auto firsts =
      pipeline::partition(costs, {.ranks = world.size(),
                                  .chunks = options.stages_per_rank,
                                  .memory_bytes = static_cast<double>(options.memory_bytes),
                                  .alive = options.alive > 0 ? options.alive : world.size()});
  if (firsts.empty())
    throw InputError(
        fmt::format("divide: no division of {} among {} ranks keeps within {} bytes a rank, which "
                    "its stages share",
                    how, world.size(), options.memory_bytes));
  firsts.push_back(layers->size());
  std::vector<PipelineStage> own;
  for (int chunk = 0; chunk < options.stages_per_rank; ++chunk) {
    const auto stage = static_cast<std::size_t>(chunk * world.size() + world.rank());
    own.emplace_back(part_of(layers, firsts[stage], firsts[stage + 1]));
  }
  return own;
}

}  // namespace sullae
