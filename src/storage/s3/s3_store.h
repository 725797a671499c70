// S3 and what speaks its protocol.
#pragma once

#include <memory>

#include "storage/store.h"

namespace sullae::storage {

/// Of the bucket that `location` names. Buckets of another endpoint than Amazon's are in its path,
/// as MinIO, Ceph and SeaweedFS have them.
std::unique_ptr<Store> make_s3_store(const Location& location);

}  // namespace sullae::storage
