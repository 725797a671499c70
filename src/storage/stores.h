// The stores that there are.
#pragma once

#include <filesystem>
#include <optional>

#include "storage/store.h"

namespace sullae::storage {

/// Nothing for a path on this host's disks. Throws InputError for "s3://" without a bucket.
std::optional<Location> find_location(const std::filesystem::path& path);

/// The one of the location's scheme and authority, made when it is first asked for, and kept for
/// the process: its connections stay open.
Store& store_of(const Location& location);

}  // namespace sullae::storage
