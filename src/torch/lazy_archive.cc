#include "torch/lazy_archive.h"

#include <fmt/format.h>

#include <cstring>

#include "sullae/error.h"
#include "torch/zip_directory.h"

namespace sullae {
namespace {

// What is smaller is read at once.
constexpr std::size_t kLarge = std::size_t{64} << 10;

}  // namespace

// libtorch asks for the whole content of a tensor in one read, to where it will be: in host memory,
// wherever it was.
LazyArchive::LazyArchive(const std::filesystem::path& file) : name_(file.string()), file_(file) {
  std::map<std::uint64_t, std::uint64_t> large;  // tensors, by where they begin: bytes
  const auto read = [this](std::uint64_t position, void* into, std::size_t bytes) {
    read_at(position, into, bytes);
  };
  for (const ZipMember& member : zip_members(read, file_.size())) {
    if (member.bytes >= kLarge && member.name.find("/data/") != std::string::npos)
      large[member.begin] = member.bytes;
  }
  archive_.load_from(
      [&](std::uint64_t position, void* into, std::size_t bytes) {
        const auto found = large.find(position);
        if (found == large.end() || found->second != bytes)
          return file_.read(position, into, bytes);
        places_[into] = {position, bytes};
        return bytes;
      },
      [&] { return file_.size(); }, torch::kCPU);
}

void LazyArchive::read(const torch::Tensor& stored, std::size_t from, std::size_t to, void* into) {
  const std::size_t element = stored.element_size();
  const auto found = places_.find(stored.storage().data_ptr().get());
  if (found == places_.end()) {
    std::memcpy(into, static_cast<const char*>(stored.data_ptr()) + from * element,
                (to - from) * element);
    return;
  }
  const auto begin =
      found->second.begin + (static_cast<std::uint64_t>(stored.storage_offset()) + from) * element;
  read_at(begin, into, (to - from) * element);
}

void LazyArchive::fill(const torch::Tensor& stored) {
  const auto found = places_.find(stored.storage().data_ptr().get());
  if (found == places_.end()) return;
  read_at(found->second.begin, found->first, found->second.bytes);
  places_.erase(found);
}

void LazyArchive::fill_all() {
  for (const auto& [address, place] : places_) read_at(place.begin, address, place.bytes);
  places_.clear();
}

void LazyArchive::read_at(std::uint64_t position, void* into, std::size_t bytes) {
  if (file_.read(position, into, bytes) != bytes)
    throw CheckpointError(fmt::format("checkpoint {}: cannot be read", name_));
}

}  // namespace sullae
