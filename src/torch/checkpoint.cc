// The format: libtorch's archive of the model, with all else in a member "sullae_checkpoint" beside the
// model's own, and then a footer of 32 bytes. Readers of zip files look for what they need from the end
// and pass over the footer.
//
//   offset 0   CRC-32        u32, of the archive
//          4   version       u32, 2
//          8   length        u64, of the archive, in bytes
//         16   zero          u64
//         24   "SULLAECP"    8 bytes
// Integers are little-endian.
#include "sullae/torch/checkpoint.h"

#include <fmt/format.h>
#include <torch/serialize.h>
#include <zlib.h>

#include <cstring>
#include <fstream>
#include <functional>

#include "base/file.h"
#include "sullae/error.h"
#include "torch/optimizer_state.h"

namespace sullae {
namespace {

constexpr std::uint32_t kVersion = 2;

constexpr const char* kExtra = "sullae_checkpoint";

struct Footer {
  std::uint32_t crc = 0;
  std::uint32_t version = kVersion;
  std::uint64_t length = 0;
  std::uint64_t zero = 0;
  char magic[8] = {'S', 'U', 'L', 'L', 'A', 'E', 'C', 'P'};
};
static_assert(sizeof(Footer) == 32);

std::uint32_t extend_crc(std::uint32_t crc, const void* data, std::size_t bytes) {
  return static_cast<std::uint32_t>(::crc32_z(crc, static_cast<const Bytef*>(data), bytes));
}

// Reads a checkpoint's archive after the whole of it has been checked.
class CheckedFile {
 public:
  explicit CheckedFile(const std::filesystem::path& file)
      : name_(file.string()), stream_(file, std::ios::binary) {
    if (!stream_)
      throw CheckpointError(
          fmt::format("checkpoint {}: cannot be opened: {}", name_, std::strerror(errno)));
    char start[4] = {};
    stream_.read(start, sizeof start);
    const bool archive = std::memcmp(start, "PK\3\4", sizeof start) == 0;
    stream_.clear();
    stream_.seekg(0, std::ios::end);
    const auto size = static_cast<std::uint64_t>(stream_.tellg());
    if (!archive)
      throw CheckpointError(fmt::format("checkpoint {}: is not a Sullae checkpoint", name_));
    if (size >= sizeof footer_) {
      stream_.seekg(static_cast<std::streamoff>(size - sizeof footer_));
      stream_.read(reinterpret_cast<char*>(&footer_), sizeof footer_);
    }
    if (size < sizeof footer_ ||
        std::memcmp(footer_.magic, Footer{}.magic, sizeof footer_.magic) != 0) {
      throw CheckpointError(
          fmt::format("checkpoint {}: is torn, or an archive of another program: it does not end "
                      "as a checkpoint "
                      "does",
                      name_));
    }
    if (footer_.version != kVersion) {
      throw CheckpointError(fmt::format("checkpoint {}: has version {}, expected {}", name_,
                                        footer_.version, kVersion));
    }
    if (footer_.length != size - sizeof footer_) {
      throw CheckpointError(fmt::format("checkpoint {}: is torn: {} bytes expected, it has {}",
                                        name_, footer_.length + sizeof footer_, size));
    }
    verify();
  }

  std::size_t size() const { return footer_.length; }
  std::size_t read(std::uint64_t position, void* into, std::size_t bytes) {
    stream_.clear();
    stream_.seekg(static_cast<std::streamoff>(position));
    stream_.read(static_cast<char*>(into), static_cast<std::streamsize>(bytes));
    return static_cast<std::size_t>(stream_.gcount());
  }

 private:
  void verify() {
    std::vector<char> buffer(std::size_t{1} << 20);
    std::uint32_t crc = 0;
    std::uint64_t left = footer_.length;
    stream_.clear();
    stream_.seekg(0);
    while (left > 0) {
      stream_.read(buffer.data(),
                   static_cast<std::streamsize>(std::min<std::uint64_t>(left, buffer.size())));
      const auto n = static_cast<std::uint64_t>(stream_.gcount());
      if (n == 0) throw CheckpointError(fmt::format("checkpoint {}: cannot be read", name_));
      crc = extend_crc(crc, buffer.data(), n);
      left -= n;
    }
    if (crc != footer_.crc)
      throw CheckpointError(
          fmt::format("checkpoint {}: is damaged: its checksum does not fit", name_));
  }

  std::string name_;
  std::ifstream stream_;
  Footer footer_;
};

// Names may hold any character, but those of an archive's members must be such as a program could have.
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

// As torch::nn::Module::save does it, with other values for some parameters.
void save_module(torch::serialize::OutputArchive& archive, const torch::nn::Module& module,
                 const std::string& prefix, const std::map<std::string, torch::Tensor>& weights) {
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    const auto other = weights.find(prefix + item.key());
    archive.write(item.key(), other != weights.end() ? other->second : item.value());
  }
  for (const auto& item : module.named_buffers(/*recurse=*/false))
    archive.write(item.key(), item.value(), /*is_buffer=*/true);
  for (const auto& child : module.named_children()) {
    if (!child.value()->is_serializable()) continue;
    torch::serialize::OutputArchive child_archive(archive.compilation_unit());
    save_module(child_archive, *child.value(), prefix + child.key() + '.', weights);
    archive.write(child.key(), child_archive);
  }
}

using Sink = std::function<void(const void*, std::size_t)>;

// The whole content of a checkpoint file.
void serialize(const torch::nn::Module& module, const torch::optim::Optimizer* optimizer,
               const CheckpointOptions& options, const Sink& sink) {
  torch::serialize::OutputArchive archive;
  save_module(archive, module, "", options.weights);
  torch::serialize::OutputArchive extra(archive.compilation_unit());
  if (optimizer != nullptr) {
    torch::serialize::OutputArchive optimizer_archive(archive.compilation_unit());
    save_optimizer(optimizer_archive, *optimizer);
    extra.write("optimizer", optimizer_archive);
  }
  write_metadata(extra, options.metadata);
  archive.write(kExtra, extra);

  Footer footer;
  // An exception must not pass through libtorch's writer, whose destructor would write again and
  // abort.
  std::exception_ptr failure;
  archive.save_to([&](const void* data, std::size_t bytes) {
    if (failure) return bytes;
    try {
      sink(data, bytes);
    } catch (const Error&) {
      failure = std::current_exception();
    }
    footer.crc = extend_crc(footer.crc, data, bytes);
    footer.length += bytes;
    return bytes;
  });
  if (failure) std::rethrow_exception(failure);
  sink(&footer, sizeof footer);
}

// libtorch would load a tensor of another shape silently and fail later.
void check_fits(torch::serialize::InputArchive& archive, const torch::nn::Module& module,
                const std::string& file) {
  const auto check = [&](const torch::OrderedDict<std::string, torch::Tensor>& tensors,
                         bool buffers) {
    for (const auto& item : tensors) {
      // "features.0.weight" is in the archive of "0" in the archive of "features".
      torch::serialize::InputArchive level;
      torch::serialize::InputArchive* at = &archive;
      std::string rest = item.key();
      torch::serialize::InputArchive inner;
      for (auto dot = rest.find('.'); dot != std::string::npos; dot = rest.find('.')) {
        if (!at->try_read(rest.substr(0, dot), inner)) break;
        level = std::move(inner);
        inner = torch::serialize::InputArchive();
        at = &level;
        rest = rest.substr(dot + 1);
      }
      torch::Tensor stored;
      if (!at->try_read(rest, stored, buffers)) {
        throw InputError(fmt::format("checkpoint {}: has no '{}': it belongs to another model",
                                     file, item.key()));
      }
      if (stored.sizes() != item.value().sizes()) {
        throw InputError(fmt::format(
            "checkpoint {}: '{}' has shape {}, but the model's has {}: it belongs to another model",
            file, item.key(), fmt::join(stored.sizes(), "x"),
            fmt::join(item.value().sizes(), "x")));
      }
    }
  };
  check(module.named_parameters(), false);
  check(module.named_buffers(), true);
}

void read_archive(const std::filesystem::path& file, torch::serialize::InputArchive& archive) {
  CheckedFile input(file);
  archive.load_from([&](std::uint64_t position, void* into,
                        std::size_t bytes) { return input.read(position, into, bytes); },
                    [&] { return input.size(); });
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
  torch::serialize::InputArchive archive;
  read_archive(file, archive);
  check_fits(archive, module, file.string());
  torch::serialize::InputArchive extra;
  archive.read(kExtra, extra);
  torch::serialize::InputArchive optimizer_archive;
  if (optimizer != nullptr && !extra.try_read("optimizer", optimizer_archive)) {
    throw InputError(fmt::format("checkpoint {}: has no optimizer state", file.string()));
  }
  CheckpointMetadata metadata = read_metadata(extra);
  // First, since it may not fit, and then nothing is to be loaded.
  if (optimizer != nullptr) {
    try {
      load_optimizer(optimizer_archive, *optimizer);
    } catch (const InputError& error) {
      throw InputError(fmt::format("checkpoint {}: {}", file.string(), error.what()));
    }
  }
  module.load(archive);
  return metadata;
}

CheckpointMetadata read_checkpoint_metadata(const std::filesystem::path& file) {
  torch::serialize::InputArchive archive;
  read_archive(file, archive);
  torch::serialize::InputArchive extra;
  archive.read(kExtra, extra);
  return read_metadata(extra);
}

}  // namespace sullae
