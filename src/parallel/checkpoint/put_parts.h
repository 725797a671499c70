// What a rank writes of a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "parallel/checkpoint/checkpoint.h"

namespace sullae {

using Numbers = std::vector<std::int64_t>;
using Crcs = std::vector<std::uint32_t>;

/// Somewhere into the file.
using Put = std::function<void(std::uint64_t offset, const void* data, std::size_t bytes)>;

/// Puts what this rank has, in the order of the contents. `places`: for each parameter where its
/// weights begin, how many moments it has, and where those begin. Returns the checksum of each
/// part.
Crcs put_parts(const ParameterParts& parts, const Sharded* sharded, const Numbers& places,
               const Put& put);

}  // namespace sullae
