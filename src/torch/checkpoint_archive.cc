#include "torch/checkpoint_archive.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "sullae/error.h"

namespace sullae {
namespace {

constexpr const char* kExtra = "sullae_checkpoint";

// As torch::nn::Module::save does it, with other values for some of it.
void save_module(torch::serialize::OutputArchive& archive, const torch::nn::Module& module,
                 const std::string& prefix, const std::map<std::string, torch::Tensor>& weights) {
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    const auto other = weights.find(prefix + item.key());
    archive.write(item.key(), other != weights.end() ? other->second : item.value());
  }
  for (const auto& item : module.named_buffers(/*recurse=*/false)) {
    const auto other = weights.find(prefix + item.key());
    archive.write(item.key(), other != weights.end() ? other->second : item.value(),
                  /*is_buffer=*/true);
  }
  for (const auto& child : module.named_children()) {
    if (!child.value()->is_serializable()) continue;
    torch::serialize::OutputArchive child_archive(archive.compilation_unit());
    save_module(child_archive, *child.value(), prefix + child.key() + '.', weights);
    archive.write(child.key(), child_archive);
  }
}

// Names may hold any character, but those of an archive's members must be such as a program could
// have.
template <class Values>
void write_values(torch::serialize::OutputArchive& archive, const std::string& kind,
                  const Values& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) {
    archive.write(fmt::format("{}_{}", kind, names.size()), torch::IValue(value));
    names.push_back(name);
  }
  archive.write(kind + "_names", torch::IValue(names));
}

template <class Values, class Take>
void read_values(torch::serialize::InputArchive& archive, const std::string& kind, Values& values,
                 Take take) {
  torch::IValue names;
  archive.read(kind + "_names", names);
  std::size_t index = 0;
  for (const torch::IValue& name : names.toListRef()) {
    torch::IValue value;
    archive.read(fmt::format("{}_{}", kind, index++), value);
    values.emplace(name.toStringRef(), take(value));
  }
}

}  // namespace

void write_metadata(torch::serialize::OutputArchive& archive, const CheckpointMetadata& metadata) {
  write_values(archive, "number", metadata.numbers);
  write_values(archive, "text", metadata.texts);
  write_values(archive, "tensor", metadata.tensors);
}

CheckpointMetadata read_metadata(torch::serialize::InputArchive& archive) {
  CheckpointMetadata metadata;
  read_values(archive, "number", metadata.numbers, [](const auto& v) { return v.toDouble(); });
  read_values(archive, "text", metadata.texts, [](const auto& v) { return v.toStringRef(); });
  read_values(archive, "tensor", metadata.tensors, [](const auto& v) { return v.toTensor(); });
  return metadata;
}

void write_checkpoint_archive(torch::serialize::OutputArchive& archive,
                              const torch::nn::Module& module, const SaveOptimizer& save_optimizer,
                              const CheckpointOptions& options) {
  save_module(archive, module, "", options.weights);
  torch::serialize::OutputArchive extra(archive.compilation_unit());
  if (save_optimizer) {
    torch::serialize::OutputArchive optimizer(archive.compilation_unit());
    save_optimizer(optimizer);
    extra.write("optimizer", optimizer);
  }
  write_metadata(extra, options.metadata);
  archive.write(kExtra, extra);
}

torch::Tensor stored_tensor(torch::serialize::InputArchive& archive, const std::string& name,
                            bool is_buffer, c10::IntArrayRef sizes, const std::string& file) {
  // "features.0.weight" is in the archive of "0" in the archive of "features".
  torch::serialize::InputArchive level;
  torch::serialize::InputArchive* at = &archive;
  std::string rest = name;
  torch::serialize::InputArchive inner;
  for (auto dot = rest.find('.'); dot != std::string::npos; dot = rest.find('.')) {
    if (!at->try_read(rest.substr(0, dot), inner)) break;
    level = std::move(inner);
    inner = torch::serialize::InputArchive();
    at = &level;
    rest = rest.substr(dot + 1);
  }
  torch::Tensor stored;
  if (!at->try_read(rest, stored, is_buffer)) {
    throw InputError(
        fmt::format("checkpoint {}: has no '{}': it belongs to another model", file, name));
  }
  if (stored.sizes() != sizes) {
    throw InputError(fmt::format(
        "checkpoint {}: '{}' has shape {}, but the model's has {}: it belongs to another model",
        file, name, fmt::join(stored.sizes(), "x"), fmt::join(sizes, "x")));
  }
  return stored;
}

std::vector<torch::Tensor> stored_tensors(torch::serialize::InputArchive& archive,
                                          const torch::nn::Module& module,
                                          const std::string& file) {
  std::vector<torch::Tensor> found;
  for_each_tensor(module,
                  [&](const std::string& name, const torch::Tensor& tensor, bool is_buffer) {
                    found.push_back(stored_tensor(archive, name, is_buffer, tensor.sizes(), file));
                  });
  return found;
}

torch::serialize::InputArchive extra_of(torch::serialize::InputArchive& archive) {
  torch::serialize::InputArchive extra;
  archive.read(kExtra, extra);
  return extra;
}

}  // namespace sullae
