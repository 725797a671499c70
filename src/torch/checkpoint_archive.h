// What stands where in a checkpoint's archive.
#pragma once

#include <torch/nn/module.h>
#include <torch/serialize.h>

#include <functional>
#include <string>
#include <vector>

#include "sullae/torch/checkpoint.h"

namespace sullae {

/// visit(name, tensor, is_buffer) for all parameters, and then all buffers, of `module`.
template <class Visit>
void for_each_tensor(const torch::nn::Module& module, const Visit& visit) {
  for (const auto& item : module.named_parameters()) visit(item.key(), item.value(), false);
  for (const auto& item : module.named_buffers()) visit(item.key(), item.value(), true);
}

/// Writes an optimizer as save_optimizer() does.
using SaveOptimizer = std::function<void(torch::serialize::OutputArchive& archive)>;

/// The model at the root, with `options.weights` in the place of parameters and buffers of these
/// names, and the rest in a member beside it. Without `save_optimizer` there is no optimizer in it.
void write_checkpoint_archive(torch::serialize::OutputArchive& archive,
                              const torch::nn::Module& module, const SaveOptimizer& save_optimizer,
                              const CheckpointOptions& options);

/// That member.
torch::serialize::InputArchive extra_of(torch::serialize::InputArchive& archive);

/// A parameter or buffer of the model in it, by its name in the model: "features.0.weight". Throws
/// InputError that names `file` where there is none, or one of other `sizes`.
torch::Tensor stored_tensor(torch::serialize::InputArchive& archive, const std::string& name,
                            bool is_buffer, c10::IntArrayRef sizes, const std::string& file);
/// Those of all of `module`'s: libtorch would load a tensor of another shape silently and fail
/// later.
std::vector<torch::Tensor> stored_tensors(torch::serialize::InputArchive& archive,
                                          const torch::nn::Module& module, const std::string& file);

void write_metadata(torch::serialize::OutputArchive& archive, const CheckpointMetadata& metadata);
CheckpointMetadata read_metadata(torch::serialize::InputArchive& archive);

}  // namespace sullae
