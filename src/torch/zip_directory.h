// Where the members of a zip archive lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sullae {

struct ZipMember {
  std::string name;
  std::uint64_t begin = 0;  ///< of the content, from the start of the archive
  std::uint64_t bytes = 0;  ///< as it lies there: libtorch compresses code, and no tensors
  /// Where its CRC-32 stands, as four bytes: in the directory, and behind the content where there
  /// is one.
  std::vector<std::uint64_t> checksums;
};

/// Reads exactly so many bytes of the archive.
using ReadAt = std::function<void(std::uint64_t position, void* into, std::size_t bytes)>;

/// The members of an archive of `length` bytes, in the order of its directory. Throws Error for
/// what is none. (PKWARE, APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.9, 4.3.12, 4.3.14 and 4.5.3.)
std::vector<ZipMember> zip_members(const ReadAt& read, std::uint64_t length);

}  // namespace sullae
