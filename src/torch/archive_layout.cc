#include "torch/archive_layout.h"

#include <sys/mman.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "base/system_error.h"
#include "sullae/error.h"
#include "torch/checkpoint_file.h"
#include "torch/zip_directory.h"

namespace sullae {
namespace {

// From one placeholder to the next, by which they are known apart.
constexpr std::size_t kStep = 64;

}  // namespace

std::uint32_t join_crcs(std::uint32_t first, std::uint32_t second, std::uint64_t bytes) {
  return static_cast<std::uint32_t>(::crc32_combine(first, second, static_cast<z_off_t>(bytes)));
}

// What is read of memory that was never written is one page of zeros.
Placeholders::Placeholders(std::size_t count, std::size_t most_bytes)
    : capacity_(count * kStep + most_bytes), most_(most_bytes) {
  void* const memory = ::mmap(nullptr, std::max<std::size_t>(capacity_, 1), PROT_READ,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw system_error("{} bytes of addresses for a checkpoint's largest tensor", capacity_);
  begin_ = static_cast<char*>(memory);
}

Placeholders::~Placeholders() { ::munmap(begin_, std::max<std::size_t>(capacity_, 1)); }

torch::Tensor Placeholders::add(const torch::Tensor& like, torch::ScalarType type) {
  const auto bytes = static_cast<std::size_t>(like.numel()) * c10::elementSize(type);
  const std::size_t at = bytes_.size() * kStep;
  if (bytes == 0 || bytes > most_ || at + bytes > capacity_)
    throw Error("a placeholder has no elements, or more than was said");
  bytes_.push_back(bytes);
  return torch::from_blob(begin_ + at, like.sizes(), like.strides(), type);
}

std::optional<std::size_t> Placeholders::number_of(const void* address) const {
  const auto* const at = static_cast<const char*>(address);
  if (std::less<>()(at, begin_) || !std::less<>()(at, begin_ + bytes_.size() * kStep))
    return std::nullopt;
  return static_cast<std::size_t>(at - begin_) / kStep;
}

ArchiveLayout::ArchiveLayout(torch::serialize::OutputArchive& archive,
                             const Placeholders& placeholders) {
  for (std::size_t i = 0; i < placeholders.size(); ++i) bytes_.push_back(placeholders.bytes_of(i));
  offsets_.assign(placeholders.size(), 0);
  std::string* open = nullptr;  // what the next bytes belong to
  archive.save_to([&](const void* data, std::size_t bytes) {
    const auto number = placeholders.number_of(data);
    if (number && bytes == bytes_[*number]) {
      offsets_[*number] = length_;
      open = nullptr;
    } else {
      if (open == nullptr) open = &rest_[length_];
      open->append(static_cast<const char*>(data), bytes);
    }
    length_ += bytes;
    return bytes;
  });
  // Nothing begins before the first member's name.
  if (std::ranges::count(offsets_, 0U) != 0)
    throw Error("libtorch did not write a tensor of a checkpoint in one piece");
}

void ArchiveLayout::read(std::uint64_t position, void* into, std::size_t bytes) const {
  auto found = rest_.upper_bound(position);
  if (found == rest_.begin()) throw Error("a zip archive's directory is damaged");
  --found;
  const std::uint64_t from = position - found->first;
  if (from > found->second.size() || bytes > found->second.size() - from)
    throw Error("a zip archive's directory is damaged");
  std::memcpy(into, found->second.data() + from, bytes);
}

std::uint32_t ArchiveLayout::put_checksums(const std::vector<std::uint32_t>& of_placeholders) {
  std::map<std::uint64_t, std::size_t> by_offset;
  for (std::size_t i = 0; i < offsets_.size(); ++i) by_offset[offsets_[i]] = i;
  const auto read_at = [this](std::uint64_t position, void* into, std::size_t bytes) {
    read(position, into, bytes);
  };
  for (const ZipMember& member : zip_members(read_at, length_)) {
    const auto found = by_offset.find(member.begin);
    if (found == by_offset.end()) continue;
    for (const std::uint64_t at : member.checksums) {
      auto part = rest_.upper_bound(at);
      --part;
      std::memcpy(part->second.data() + (at - part->first), &of_placeholders[found->second],
                  sizeof(std::uint32_t));
    }
  }
  std::uint32_t crc = 0;
  auto next = by_offset.begin();
  for (std::uint64_t at = 0; at < length_;) {
    if (next != by_offset.end() && next->first == at) {
      crc = join_crcs(crc, of_placeholders[next->second], bytes_[next->second]);
      at += bytes_[next->second];
      ++next;
    } else {
      const std::string& bytes = rest_.at(at);
      crc = extend_crc(crc, bytes.data(), bytes.size());
      at += bytes.size();
    }
  }
  return crc;
}

}  // namespace sullae
