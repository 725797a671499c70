#include "train/update/weight_update.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include "sullae/error.h"
#include "sullae/torch.h"
#include "sullae/train/units.h"
#include "train/division.h"

namespace sullae::train {
namespace {

void check_shard_of(torch::nn::Module& model, const TrainOptions& options) {
  const bool is_of_units = units_of(model) != nullptr;
  if (is_of_units == (options.shard == "parameters")) return;
  if (is_of_units)
    throw InputError(fmt::format(
        "--shard {}: the model is made of units, whose parameters are in parts: expected "
        "--shard parameters",
        options.shard));
  throw InputError(
      "--shard parameters: the model is not made of units (sullae::train::HasUnits), as those of "
      "the recipes transformer and gpt are: expected --shard gradients");
}

}  // namespace

void broadcast_buffers(torch::nn::Module& model, const World& world) {
  if (world.size() == 1) return;
  const torch::NoGradGuard guard;
  for (torch::Tensor buffer : model.buffers()) broadcast(buffer, 0, world);
}

std::optional<SerializedCheckpoint> GatheredUpdate::save(const std::filesystem::path& file,
                                                         CheckpointMetadata metadata) {
  WholeState whole = gather();
  if (file.empty()) return std::nullopt;
  return serialize_checkpoint(
      model_, whole.optimizer,
      {.metadata = std::move(metadata), .weights = std::move(whole.weights)});
}

std::optional<SerializedCheckpoint> GatheredUpdate::save_weights(const std::filesystem::path& file,
                                                                 CheckpointMetadata metadata) {
  auto weights = master_weights();
  if (file.empty()) return std::nullopt;
  return serialize_checkpoint(model_, nullptr,
                              {.metadata = std::move(metadata), .weights = std::move(weights)});
}

bool is_gathered(torch::nn::Module& model, const TrainOptions& options) {
  return has_parameter_servers() || (options.shard == "none" && !is_in_parts(model));
}

std::unique_ptr<WeightUpdate> make_update(torch::nn::Module& model, const TrainOptions& options,
                                          const Ranks* ranks) {
  check_shard_of(model, options);
  const bool is_sparse = options.ps_mode == "ps-sparse";
  if (has_parameter_servers())
    return is_sparse ? make_sparse_server_update(model, options)
                     : make_server_update(model, options);
  if (is_sparse)
    throw InputError(
        "--ps-mode ps-sparse: there are no parameter servers: expected sullae run --ps");
  if (is_in_parts(model)) return make_parts_update(model, options, *ranks);
  if (is_gathered(model, options)) return make_replicated_update(model, options);
  return make_sharded_update(model, options);
}

}  // namespace sullae::train
