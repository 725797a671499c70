// Checkpoints: whole or absent, checked before they are loaded.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <filesystem>
#include <map>
#include <string>

namespace sullae {

/// What a checkpoint holds besides the model and the optimizer, by name.
struct CheckpointMetadata {
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> texts;
  std::map<std::string, torch::Tensor> tensors;
};

/// What goes into a checkpoint.
struct CheckpointOptions {
  CheckpointMetadata metadata = {};
  /// Written in place of the module's parameters, and buffers, of these names: the master weights
  /// of a model that computes in 16 bits.
  std::map<std::string, torch::Tensor> weights = {};
};

/// A checkpoint in memory, as it will be on disk.
struct SerializedCheckpoint {
  std::string bytes;
};

/// Copies everything into memory, so that training can go on while write() runs in another thread.
/// Throws Error.
SerializedCheckpoint serialize_checkpoint(const torch::nn::Module& module,
                                          const torch::optim::Optimizer* optimizer = nullptr,
                                          const CheckpointOptions& options = {});
/// Any thread. Throws as save_checkpoint does.
void write_checkpoint(const std::filesystem::path& file, const SerializedCheckpoint& checkpoint);

/// Writes a checkpoint. It is written beside `file`, synced, and renamed, with a checksum, so that
/// `file` is at any time the old one or the new one, whole. Call it on one rank. Throws Error that
/// names the file (a full disk, say); nothing is left behind then, and an older checkpoint of the
/// same name is intact.
///
/// The file is an archive of libtorch with the model at its root: `torch::load(module, file)` reads
/// the weights without Sullae, and so does `torch.jit.load(file).state_dict()` in Python.
void save_checkpoint(const std::filesystem::path& file, const torch::nn::Module& module,
                     const torch::optim::Optimizer* optimizer = nullptr,
                     const CheckpointOptions& options = {});

/// Reads a checkpoint into `module` and, where given, `optimizer`. Throws CheckpointError for a
/// file that is missing, torn, damaged or no checkpoint, and InputError for one that belongs to
/// another model or optimizer; nothing is loaded then.
CheckpointMetadata load_checkpoint(const std::filesystem::path& file, torch::nn::Module& module,
                                   torch::optim::Optimizer* optimizer = nullptr);

/// Reads what a checkpoint holds besides the model and the optimizer, before there is a model to
/// load it into. Throws CheckpointError as load_checkpoint() does.
CheckpointMetadata read_checkpoint_metadata(const std::filesystem::path& file);

}  // namespace sullae
