#include "sullae/torch/checkpoint.h"

#include <fmt/format.h>
#include <torch/serialize.h>

#include <functional>

#include "base/file.h"
#include "sullae/error.h"
#include "torch/checkpoint_archive.h"
#include "torch/checkpoint_file.h"
#include "torch/lazy_archive.h"
#include "torch/optimizer_state.h"

namespace sullae {
namespace {

using Sink = std::function<void(const void*, std::size_t)>;

// The whole content of a checkpoint file.
void serialize(const torch::nn::Module& module, const torch::optim::Optimizer* optimizer,
               const CheckpointOptions& options, const Sink& sink) {
  torch::serialize::OutputArchive archive;
  SaveOptimizer save;
  if (optimizer != nullptr)
    save = [&](auto& its) {
      save_optimizer(its, *optimizer);
    };
  write_checkpoint_archive(archive, module, save, options);

  CheckpointFooter footer;
  // An exception must not pass through libtorch's writer, whose destructor would write again and
  // abort.
  std::exception_ptr failure;
  archive.save_to([&](const void* data, std::size_t bytes) {
    if (failure) return bytes;
    try {
      sink(data, bytes);
    } catch (...) {  // also where there is no memory
      failure = std::current_exception();
    }
    footer.crc = extend_crc(footer.crc, data, bytes);
    footer.length += bytes;
    return bytes;
  });
  if (failure) std::rethrow_exception(failure);
  sink(&footer, sizeof footer);
}

// A tensor keeps its type and its device. libtorch's own Module::load() puts it on the archive's
// device, and some versions go on to read the memory of another type as its own, and others refuse
// it.
void load_module(torch::nn::Module& module, const std::vector<torch::Tensor>& stored) {
  const torch::NoGradGuard guard;
  std::size_t next = 0;
  for_each_tensor(module, [&](const std::string&, const torch::Tensor& tensor, bool) {
    const torch::Tensor& its = stored[next++];
    // Where it is: others, such as an optimizer of parts, may have it as a part of their memory.
    if (tensor.is_non_overlapping_and_dense() && !tensor.is_inference()) {
      tensor.copy_(its);
      return;
    }
    const bool fits = its.scalar_type() == tensor.scalar_type() && its.device() == tensor.device();
    tensor.set_data(fits ? its : torch::empty_like(tensor).copy_(its));
  });
}

// What is divided among ranks has no memory here until it is used.
void check_is_here(torch::nn::Module& module) {
  for_each_tensor(module, [&](const std::string& name, const torch::Tensor& tensor, bool) {
    if (tensor.numel() == 0 || tensor.is_meta() || tensor.storage().data() != nullptr) return;
    throw InputError(fmt::format(
        "load_checkpoint: '{}' is divided among ranks: expected load_checkpoint(file, module, "
        "optimizer), with the ShardedOptimizer",
        name));
  });
}

}  // namespace

SerializedCheckpoint serialize_checkpoint(const torch::nn::Module& module,
                                          const torch::optim::Optimizer* optimizer,
                                          const CheckpointOptions& options) {
  SerializedCheckpoint checkpoint;
  serialize(module, optimizer, options, [&](const void* data, std::size_t bytes) {
    checkpoint.bytes.append(static_cast<const char*>(data), bytes);
  });
  return checkpoint;
}

void write_checkpoint(const std::filesystem::path& file, const SerializedCheckpoint& checkpoint) {
  write_file(file, checkpoint.bytes);
}

void save_checkpoint(const std::filesystem::path& file, const torch::nn::Module& module,
                     const torch::optim::Optimizer* optimizer, const CheckpointOptions& options) {
  AtomicFile output(file);
  serialize(module, optimizer, options,
            [&](const void* data, std::size_t bytes) { output.write(data, bytes); });
  output.commit();
}

CheckpointMetadata load_checkpoint(const std::filesystem::path& file, torch::nn::Module& module,
                                   torch::optim::Optimizer* optimizer) {
  check_is_here(module);
  LazyArchive lazy(file);
  auto& archive = lazy.archive();
  const auto stored = stored_tensors(archive, module, file.string());
  auto extra = extra_of(archive);
  torch::serialize::InputArchive optimizer_archive;
  if (optimizer != nullptr && !extra.try_read("optimizer", optimizer_archive)) {
    throw InputError(fmt::format("checkpoint {}: has no optimizer state", file.string()));
  }
  CheckpointMetadata metadata = read_metadata(extra);
  for (const auto& [name, tensor] : metadata.tensors) lazy.fill(tensor);
  // Where it is not asked for, the optimizer's state is not read.
  if (optimizer != nullptr) lazy.fill_all();
  for (const torch::Tensor& tensor : stored) lazy.fill(tensor);
  // First, since it may not fit, and then nothing is to be loaded.
  if (optimizer != nullptr) {
    try {
      load_optimizer(optimizer_archive, *optimizer);
    } catch (const InputError& error) {
      throw InputError(fmt::format("checkpoint {}: {}", file.string(), error.what()));
    }
  }
  load_module(module, stored);
  return metadata;
}

CheckpointMetadata read_checkpoint_metadata(const std::filesystem::path& file) {
  LazyArchive lazy(file);
  auto extra = extra_of(lazy.archive());
  auto metadata = read_metadata(extra);
  for (const auto& [name, tensor] : metadata.tensors) lazy.fill(tensor);
  return metadata;
}

}  // namespace sullae
