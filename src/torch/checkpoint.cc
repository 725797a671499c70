// The format: a header of 32 bytes, then libtorch's archive with the model, the optimizer and the
// metadata.
//
//   offset 0   "SULLAECP"    8 bytes
//          8   version       u32, 1
//         12   CRC-32        u32, of the archive
//         16   length        u64, of the archive, in bytes
//         24   zero          u64
// Integers are little-endian.
#include <fmt/format.h>
#include <torch/serialize.h>
#include <zlib.h>

#include <cstring>
#include <fstream>

#include "base/file.h"
#include "sullae/torch.h"
#include "torch/optimizer_state.h"

namespace sullae {
namespace {

constexpr std::uint32_t kVersion = 1;

struct Header {
  char magic[8] = {'S', 'U', 'L', 'L', 'A', 'E', 'C', 'P'};
  std::uint32_t version = kVersion;
  std::uint32_t crc = 0;
  std::uint64_t length = 0;
  std::uint64_t zero = 0;
};
static_assert(sizeof(Header) == 32);

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
    stream_.read(reinterpret_cast<char*>(&header_), sizeof header_);
    if (stream_.gcount() != sizeof header_ ||
        std::memcmp(header_.magic, Header{}.magic, sizeof header_.magic) != 0) {
      throw CheckpointError(fmt::format("checkpoint {}: is not a Sullae checkpoint", name_));
    }
    if (header_.version != kVersion) {
      throw CheckpointError(fmt::format("checkpoint {}: has version {}, expected {}", name_,
                                        header_.version, kVersion));
    }
    verify();
  }

  std::size_t size() const { return header_.length; }
  std::size_t read(std::uint64_t position, void* into, std::size_t bytes) {
    stream_.clear();
    stream_.seekg(static_cast<std::streamoff>(sizeof header_ + position));
    stream_.read(static_cast<char*>(into), static_cast<std::streamsize>(bytes));
    return static_cast<std::size_t>(stream_.gcount());
  }

 private:
  void verify() {
    std::vector<char> buffer(std::size_t{1} << 20);
    std::uint32_t crc = 0;
    std::uint64_t left = header_.length;
    while (left > 0) {
      stream_.read(buffer.data(),
                   static_cast<std::streamsize>(std::min<std::uint64_t>(left, buffer.size())));
      const auto n = static_cast<std::uint64_t>(stream_.gcount());
      if (n == 0) {
        throw CheckpointError(
            fmt::format("checkpoint {}: is torn: {} bytes expected, the last {} are missing", name_,
                        header_.length + sizeof header_, left));
      }
      crc = extend_crc(crc, buffer.data(), n);
      left -= n;
    }
    if (crc != header_.crc)
      throw CheckpointError(
          fmt::format("checkpoint {}: is damaged: its checksum does not fit", name_));
  }

  std::string name_;
  std::ifstream stream_;
  Header header_;
};

constexpr const char* kMetadataPrefix = "metadata/";

void write_metadata(torch::serialize::OutputArchive& archive, const CheckpointMetadata& metadata) {
  for (const auto& [key, value] : metadata)
    archive.write(kMetadataPrefix + key, torch::IValue(value));
}

CheckpointMetadata read_metadata(torch::serialize::InputArchive& archive) {
  CheckpointMetadata metadata;
  for (const auto& key : archive.keys()) {
    torch::IValue value;
    if (!key.starts_with(kMetadataPrefix)) continue;
    archive.read(key, value);
    metadata[key.substr(std::strlen(kMetadataPrefix))] = value.toDouble();
  }
  return metadata;
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

}  // namespace

void save_checkpoint(const std::filesystem::path& file, const torch::nn::Module& module,
                     const torch::optim::Optimizer* optimizer, const CheckpointMetadata& metadata) {
  torch::serialize::OutputArchive archive;
  torch::serialize::OutputArchive model_archive(archive.compilation_unit());
  module.save(model_archive);
  archive.write("model", model_archive);
  if (optimizer != nullptr) {
    torch::serialize::OutputArchive optimizer_archive(archive.compilation_unit());
    save_optimizer(optimizer_archive, *optimizer);
    archive.write("optimizer", optimizer_archive);
  }
  write_metadata(archive, metadata);

  AtomicFile output(file);
  Header header;
  output.write(&header, sizeof header);
  // An exception must not pass through libtorch's writer, whose destructor would write again and
  // abort.
  std::exception_ptr failure;
  archive.save_to([&](const void* data, std::size_t bytes) {
    if (failure) return bytes;
    try {
      output.write(data, bytes);
    } catch (const Error&) {
      failure = std::current_exception();
    }
    header.crc = extend_crc(header.crc, data, bytes);
    header.length += bytes;
    return bytes;
  });
  if (failure) std::rethrow_exception(failure);
  output.write_at(0, &header, sizeof header);
  output.commit();
}

CheckpointMetadata load_checkpoint(const std::filesystem::path& file, torch::nn::Module& module,
                                   torch::optim::Optimizer* optimizer) {
  CheckedFile input(file);
  torch::serialize::InputArchive archive;
  archive.load_from([&](std::uint64_t position, void* into,
                        std::size_t bytes) { return input.read(position, into, bytes); },
                    [&] { return input.size(); });
  torch::serialize::InputArchive model_archive;
  archive.read("model", model_archive);
  check_fits(model_archive, module, file.string());
  torch::serialize::InputArchive optimizer_archive;
  if (optimizer != nullptr && !archive.try_read("optimizer", optimizer_archive)) {
    throw InputError(fmt::format("checkpoint {}: has no optimizer state", file.string()));
  }
  module.load(model_archive);
  if (optimizer != nullptr) load_optimizer(optimizer_archive, *optimizer);
  return read_metadata(archive);
}

}  // namespace sullae
