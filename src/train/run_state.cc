#include "train/run_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "sullae/torch.h"
#include "train/broadcast_text.h"
#include "train/trained_on.h"

namespace sullae::train {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunState, epoch, step, steps, samples_a_step, loss_sum,
                                   train_loss, test_loss, test_accuracy, best_accuracy, scaler)

namespace {

constexpr const char* kState = "run";
constexpr const char* kGenerators = "generators";

// Of what this rank computes on: dropout on a GPU draws from the GPU's.
at::Generator generator_of(const World& world) {
  return at::globalContext().defaultGenerator(local_device(world));
}

torch::Tensor broadcast_generators(const CheckpointMetadata* metadata, const World& world) {
  torch::Tensor generators = torch::empty({0, 0}, torch::kUInt8);
  if (metadata != nullptr) generators = metadata->tensors.at(kGenerators);
  std::int64_t shape[2] = {generators.size(0), generators.size(1)};
  world.broadcast(shape, 2, DataType::int64, 0);
  if (metadata == nullptr) generators = torch::empty({shape[0], shape[1]}, torch::kUInt8);
  broadcast(generators, 0, world);
  return generators;
}

}  // namespace

torch::Tensor gather_generators(const World& world) {
  return allgather(generator_of(world).get_state().unsqueeze(0), world);
}

CheckpointMetadata to_metadata(const RunState& state, const torch::Tensor& generators,
                               const std::string& configuration) {
  CheckpointMetadata metadata{.texts = {{kState, nlohmann::json(state).dump()}},
                              .tensors = {{kGenerators, generators}}};
  add_configuration(metadata, configuration);
  return metadata;
}

RunState restore(const CheckpointMetadata* metadata, const World& world) {
  std::string text = metadata == nullptr ? "" : metadata->texts.at(kState);
  text = broadcast_text(std::move(text), world);
  const auto generators = broadcast_generators(metadata, world);
  if (generators.size(0) == world.size())
    generator_of(world).set_state(generators[world.rank()].clone());
  return nlohmann::json::parse(text).get<RunState>();
}

}  // namespace sullae::train
