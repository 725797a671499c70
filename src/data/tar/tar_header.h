// The header of a member of a tar archive (POSIX.1-2001, "ustar Interchange Format").
#pragma once

#include <cstddef>
#include <cstring>

namespace sullae::data {

inline constexpr std::size_t kTarBlock = 512;

struct TarHeader {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char checksum[8];
  char type;
  char link_name[100];
  char magic[6];
  char version[2];
  char user_name[32];
  char group_name[32];
  char device_major[8];
  char device_minor[8];
  char prefix[155];
  char padding[12];
};
static_assert(sizeof(TarHeader) == kTarBlock);

/// The sum of a header's bytes, with those of the checksum itself taken as spaces.
inline unsigned tar_checksum(const TarHeader& header) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&header);
  unsigned sum = 0;
  for (std::size_t i = 0; i < kTarBlock; ++i) {
    const bool own = i >= offsetof(TarHeader, checksum) && i < offsetof(TarHeader, type);
    sum += own ? ' ' : bytes[i];
  }
  return sum;
}

}  // namespace sullae::data
