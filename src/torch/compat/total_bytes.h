// How libtorch tells what is allocated.
#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>

namespace sullae {

template <class Total>
Total total_of(void (c10::MemoryReportingInfoBase::*)(void*, std::int64_t, Total, Total,
                                                      c10::Device));

/// std::int64_t up to libtorch 1.13, then std::size_t.
using TotalBytes = decltype(total_of(&c10::MemoryReportingInfoBase::reportMemoryUsage));

}  // namespace sullae
