// What a checkpoint is on disk: an archive, and behind it a footer by which a torn or damaged file
// is known.
#pragma once

#include <torch/serialize.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace sullae {

/// See checkpoint_file.cc.
struct CheckpointFooter {
  std::uint32_t crc = 0;
  std::uint32_t version = 2;
  std::uint64_t length = 0;
  std::uint64_t zero = 0;
  char magic[8] = {'S', 'U', 'L', 'L', 'A', 'E', 'C', 'P'};
};
static_assert(sizeof(CheckpointFooter) == 32);

/// CRC-32 of what `crc` is of, and `data` behind it.
std::uint32_t extend_crc(std::uint32_t crc, const void* data, std::size_t bytes);

/// Reads a checkpoint's archive after the whole of it has been checked. Used by one thread.
class CheckedFile {
 public:
  /// Throws CheckpointError.
  explicit CheckedFile(const std::filesystem::path& file);

  std::size_t size() const { return footer_.length; }
  /// Returns how many were there.
  std::size_t read(std::uint64_t position, void* into, std::size_t bytes);

 private:
  void verify();

  std::string name_;
  std::ifstream stream_;
  CheckpointFooter footer_;
};

}  // namespace sullae
