// An archive of libtorch without the content of its tensors, which others put in their places.
#pragma once

#include <torch/serialize.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sullae {

/// Tensors that have shapes and types, and no memory: all begin in one range of addresses that is
/// read only, and never there. They are for archives, and go before this does.
class Placeholders {
 public:
  /// Room for so many, of which the largest has so many bytes. Throws Error.
  Placeholders(std::size_t count, std::size_t most_bytes);
  ~Placeholders();
  Placeholders(const Placeholders&) = delete;
  Placeholders& operator=(const Placeholders&) = delete;

  /// One that is laid out as `like`, which has elements, without gaps; its number is how many there
  /// were before.
  torch::Tensor add(const torch::Tensor& like, torch::ScalarType type);
  std::size_t size() const { return bytes_.size(); }
  std::uint64_t bytes_of(std::size_t number) const { return bytes_[number]; }
  /// Of the one that begins there.
  std::optional<std::size_t> number_of(const void* address) const;

 private:
  char* begin_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t most_ = 0;
  std::vector<std::uint64_t> bytes_;
};

/// Where everything of an archive will be.
class ArchiveLayout {
 public:
  /// Throws Error where a placeholder is missing in the archive.
  ArchiveLayout(torch::serialize::OutputArchive& archive, const Placeholders& placeholders);

  /// In bytes.
  std::uint64_t length() const { return length_; }
  /// Where the content of a placeholder begins.
  std::uint64_t offset_of(std::size_t placeholder) const { return offsets_[placeholder]; }
  /// Puts the CRC-32 of the content of each placeholder where it belongs, and returns that of the
  /// whole archive.
  std::uint32_t put_checksums(const std::vector<std::uint32_t>& of_placeholders);
  /// All but the content of placeholders.
  const std::map<std::uint64_t, std::string>& rest() const { return rest_; }

 private:
  void read(std::uint64_t position, void* into, std::size_t bytes) const;

  std::vector<std::uint64_t> bytes_;  // of the placeholders
  std::vector<std::uint64_t> offsets_;
  std::map<std::uint64_t, std::string> rest_;  // by where it begins
  std::uint64_t length_ = 0;
};

/// CRC-32 of what `first` is of, and behind it `bytes` of which `second` is.
std::uint32_t join_crcs(std::uint32_t first, std::uint32_t second, std::uint64_t bytes);

}  // namespace sullae
