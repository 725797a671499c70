#include "train/run_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "base/dump_json.h"
#include "sullae/torch.h"
#include "torch/broadcast_text.h"
#include "train/monitor/metrics_json.h"
#include "train/monitor/report.h"
#include "train/trained_on.h"

namespace sullae::train {

namespace {

#define SULLAE_STATE_FIELDS(way) \
  NLOHMANN_JSON_EXPAND(          \
      NLOHMANN_JSON_PASTE(way, epoch, step, steps, samples_a_step, train_loss, test_loss, scaler))

constexpr const char* kBest = "best_";

nlohmann::json to_json(const RunState& nlohmann_json_t) {
  nlohmann::json nlohmann_json_j;
  SULLAE_STATE_FIELDS(NLOHMANN_JSON_TO)
  nlohmann_json_j["loss_of_samples"] = nlohmann_json_t.loss_sum;
  nlohmann_json_j["samples"] = nlohmann_json_t.samples;
  nlohmann_json_j["of_epoch"] = nlohmann_json_t.of_epoch;
  put_test_metrics(nlohmann_json_j, nlohmann_json_t.test_metrics);
  for (const auto& [name, value] : nlohmann_json_t.best) nlohmann_json_j[kBest + name] = value;
  nlohmann_json_j["history"] = to_text(nlohmann_json_t.history);
  nlohmann_json_j["seconds"] = nlohmann_json_t.seconds;
  return nlohmann_json_j;
}

RunState from_json(const nlohmann::json& nlohmann_json_j) {
  RunState nlohmann_json_t;
  SULLAE_STATE_FIELDS(NLOHMANN_JSON_FROM)
  // Earlier versions added up the means of steps.
  nlohmann_json_t.loss_sum = nlohmann_json_j.value(
      "loss_of_samples",
      nlohmann_json_j.value("loss_sum", 0.0) * static_cast<double>(nlohmann_json_t.samples_a_step));
  // Earlier versions did not count them.
  nlohmann_json_t.samples =
      nlohmann_json_j.value("samples", nlohmann_json_t.step * nlohmann_json_t.samples_a_step);
  nlohmann_json_t.of_epoch = nlohmann_json_j.value("of_epoch", std::int64_t{0});
  nlohmann_json_t.test_metrics = test_metrics_in(nlohmann_json_j);
  // Earlier versions kept neither.
  nlohmann_json_t.history = history_of(nlohmann_json_j.value("history", "[]"));
  nlohmann_json_t.seconds = nlohmann_json_j.value("seconds", 0.0);
  for (const auto& [key, value] : nlohmann_json_j.items()) {
    if (key.starts_with(kBest))
      nlohmann_json_t.best[key.substr(std::string(kBest).size())] = value.get<double>();
  }
  return nlohmann_json_t;
}

constexpr const char* kState = "run";
constexpr const char* kGenerators = "generators";

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

torch::Tensor gather_generators(torch::Device device, const Ranks& ranks) {
  const auto states = allgather(
      at::globalContext().defaultGenerator(device).get_state().unsqueeze(0), ranks.drawing);
  const auto numbers = allgather(torch::tensor({ranks.drawing_number()}), ranks.drawing);
  return states.index_select(0, numbers.argsort());
}

std::string to_text(const RunState& state) { return dump_json(to_json(state)); }
RunState run_state_of(const std::string& text) { return from_json(parse_measured(text)); }
RunState run_state_of(const CheckpointMetadata& metadata) {
  return run_state_of(metadata.texts.at(kState));
}

CheckpointMetadata to_metadata(const RunState& state, const torch::Tensor& generators,
                               const std::string& configuration) {
  CheckpointMetadata metadata{.texts = {{kState, to_text(state)}},
                              .tensors = {{kGenerators, generators}}};
  add_configuration(metadata, configuration);
  return metadata;
}

RunState restore(const CheckpointMetadata* metadata, torch::Device device, const Ranks& ranks) {
  std::string text = metadata == nullptr ? "" : metadata->texts.at(kState);
  text = broadcast_text(std::move(text), 0, ranks.all);
  const auto generators = broadcast_generators(metadata, ranks.all);
  auto generator = at::globalContext().defaultGenerator(device);
  // A processor's says nothing to a GPU.
  if (generators.size(0) == ranks.drawing.size() &&
      generators.size(1) == generator.get_state().numel())
    generator.set_state(generators[ranks.drawing_number()].clone());
  return run_state_of(text);
}

}  // namespace sullae::train
