// Files without a name in TMPDIR, for what comes from and goes to stores.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/fd.h"

namespace sullae::storage {

/// Throws Error that names the folder.
UniqueFd make_spool();
void write_spool(int fd, std::uint64_t offset, const void* data, std::size_t bytes);

}  // namespace sullae::storage
