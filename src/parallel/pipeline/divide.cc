#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>

#include "parallel/pipeline/layer_cost.h"
#include "parallel/pipeline/partition.h"
#include "sullae/parallel/pipeline.h"
#include "torch/agreement.h"

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
  failure = allgather_texts(world, failure)[0];
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

// A parameter of two stages would become two.
void check_shared(const torch::nn::Sequential& layers, const std::vector<std::size_t>& firsts) {
  struct Holder {
    std::string name;
    std::ptrdiff_t stage;
  };
  std::map<const void*, Holder> holders;
  const auto children = layers->named_children();
  for (std::size_t i = 0; i < children.size(); ++i) {
    const auto stage = std::ranges::upper_bound(firsts, i) - firsts.begin() - 1;
    for (const auto& item : children[i].value()->named_parameters()) {
      const auto name = fmt::format("{}.{}", children[i].key(), item.key());
      const auto& [held, is_new] =
          holders.emplace(item.value().unsafeGetTensorImpl(), Holder{name, stage});
      const Holder& other = held->second;
      if (is_new || other.stage == stage) continue;
      throw InputError(fmt::format(
          "divide: '{}' of stage {} and '{}' of stage {} are one parameter: expected layers that "
          "have their own, and PipelineOptions::tied for those that are to be equal",
          other.name, other.stage, name, stage));
    }
  }
}

// `all` measure once, and so divide alike.
std::vector<PipelineStage> divide_alike(const torch::nn::Sequential& layers,
                                        const torch::Tensor& sample, const World& pipeline,
                                        const World& all, const DivisionOptions& options) {
  const std::string how =
      fmt::format("{} layers, {} stages a rank", layers->size(), options.stages_per_rank);
  check_same_on_all(
      all, "how to divide a model",
      fmt::format("{}, {} bytes, {} alive", how, options.memory_bytes, options.alive));
  const auto stages = static_cast<std::size_t>(std::max(options.stages_per_rank, 0)) *
                      static_cast<std::size_t>(pipeline.size());
  if (stages == 0 || layers->size() < stages)
    throw InputError(
        fmt::format("divide: {} for {} ranks: expected at least a stage a rank, and a "
                    "layer a stage",
                    how, pipeline.size()));
  const auto costs = measured(layers, sample, all, options);
  auto firsts =
      pipeline::partition(costs, {.ranks = pipeline.size(),
                                  .chunks = options.stages_per_rank,
                                  .memory_bytes = static_cast<double>(options.memory_bytes),
                                  .alive = options.alive > 0 ? options.alive : pipeline.size()});
  if (firsts.empty())
    throw InputError(
        fmt::format("divide: no division of {} among {} ranks keeps within {} bytes a rank, which "
                    "its stages share",
                    how, pipeline.size(), options.memory_bytes));
  check_shared(layers, firsts);
  firsts.push_back(layers->size());
  std::vector<PipelineStage> own;
  for (int chunk = 0; chunk < options.stages_per_rank; ++chunk) {
    const auto stage = static_cast<std::size_t>(chunk * pipeline.size() + pipeline.rank());
    own.emplace_back(part_of(layers, firsts[stage], firsts[stage + 1]));
  }
  return own;
}

}  // namespace

std::vector<PipelineStage> divide(const torch::nn::Sequential& layers, const torch::Tensor& sample,
                                  const World& world, const DivisionOptions& options) {
  return divide_alike(layers, sample, world, world, options);
}

std::vector<PipelineStage> divide(const torch::nn::Sequential& layers, const torch::Tensor& sample,
                                  const Mesh& mesh, const std::string& dimension,
                                  const DivisionOptions& options) {
  return divide_alike(layers, sample, mesh[dimension], mesh.world(), options);
}

}  // namespace sullae
