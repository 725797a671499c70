// Memory for what is decoded.
#pragma once

#include <arrow/memory_pool.h>

namespace sullae::data {

/// Arrow's default memory, of which large blocks that are free are kept for the next piece of a
/// file, up to 128 MiB: a piece after the other takes blocks of the same sizes, and the system's
/// fresh pages, which it fills with zeros first, cost as much as decoding. Any thread. Lives as
/// long as the process.
arrow::MemoryPool* kept_memory();

}  // namespace sullae::data
