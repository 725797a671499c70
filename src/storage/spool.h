// Files without a name in TMPDIR, for what comes from and goes to stores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/fd.h"
#include "storage/store.h"

namespace sullae::storage {

/// Throws Error that names the folder.
UniqueFd make_spool();
void write_spool(int fd, std::uint64_t offset, const void* data, std::size_t bytes);
/// Exactly `bytes`, which are there.
void read_spool(int fd, std::uint64_t offset, void* into, std::size_t bytes);
/// Bytes of a file of a store, to their places in it.
void fetch_to_spool(int fd, Store& store, const std::string& path, const std::string& version,
                    std::uint64_t offset, std::uint64_t bytes);

}  // namespace sullae::storage
