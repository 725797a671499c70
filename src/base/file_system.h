// What file systems that several hosts have do otherwise, by their type (statfs(2)).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace sullae {

/// Each host has pages of its own, and writes whole ones (https://docs.kernel.org/filesystems/nfs/;
/// mount's noalignwrite): NFS, SMB, CIFS, SMB 2, FUSE.
inline bool keeps_pages(std::uint32_t type) {
  constexpr std::array<std::uint32_t, 5> kTypes = {0x6969, 0x517B, 0xFF534D42, 0xFE534D42,
                                                   0x65735546};
  return std::ranges::find(kTypes, type) != kTypes.end();
}

/// Other hosts may have its files open, too: those above, 9P, AFS, Ceph, Lustre, GPFS.
inline bool is_of_several_hosts(std::uint32_t type) {
  constexpr std::array<std::uint32_t, 5> kTypes = {0x01021997, 0x5346414F, 0x00C36400, 0x0BD00BD0,
                                                   0x47504653};
  return keeps_pages(type) || std::ranges::find(kTypes, type) != kTypes.end();
}

}  // namespace sullae
