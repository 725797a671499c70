#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace sullae {

/// A tensor that a served model takes or gives.
struct ServedTensor {
  std::string name;
  torch::ScalarType type = torch::kFloat32;
  /// -1: any size. The first is the batch, unless the model takes none.
  std::vector<std::int64_t> shape;
};

struct TorchScriptExport {
  /// The model repository, which is made where it is missing, and the model's name in it.
  std::filesystem::path repository;
  std::string name;
  /// In the order of forward's arguments, and of what it returns: a tensor, or a tuple of tensors.
  std::vector<ServedTensor> inputs;
  std::vector<ServedTensor> outputs;
  /// Rows that are computed together; 0: the model takes no batches.
  int max_batch_size = 64;
};

/// Writes `module` as the next version of a model in a repository, `<repository>/<name>/<n>/model.pt`, with a config.toml
/// that names its inputs and outputs where there is none yet: `sullae serve` serves it. The version appears whole or not at
/// all. Returns its folder.
///
/// `source` is TorchScript: the method forward(self, …), and others that it calls. Parameters and buffers have the names
/// that they have in `module`, with `_` for dots (self.encoder_layers_0_weight); what the source does not do, as dropout, is
/// not done. See https://pytorch.org/docs/stable/jit_language_reference.html.
///
/// Before anything is written forward runs, on zeros, with a batch of one and one of three (and 2 for other sizes that may
/// be any), so that a shape that was baked in is found here. Throws InputError for a source that does not compile, or
/// gives other tensors than `outputs`, or a name that cannot be a folder's; Error where files cannot be written. Any thread;
/// the module must not change meanwhile.
std::filesystem::path export_torchscript(const torch::nn::Module& module, const std::string& source,
                                         const TorchScriptExport& options);

}  // namespace sullae
