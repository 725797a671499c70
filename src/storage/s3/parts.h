// Large files in parts, each of which may be sent again alone
// (docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html).
#pragma once

#include <cstdint>
#include <string>

#include "storage/s3/client.h"

namespace sullae::storage {

/// What is larger is sent in parts; S3 takes at most 5 GB at once.
inline constexpr std::uint64_t kS3Part = std::uint64_t{64} << 20;

/// The first `bytes` of an open file, which are there together, when this returns, or not at all.
/// Throws Error.
void write_in_parts(S3Client& client, const std::string& path, int fd, std::uint64_t bytes);

}  // namespace sullae::storage
