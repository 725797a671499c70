// How the C library's allocator serves what comes and goes at every step.
#pragma once

namespace sullae {

/// Blocks of 2 MiB and more go back to the system when they are freed, and up to 32 MiB of smaller
/// ones stay. Of the whole process; a second call does nothing.
void limit_malloc();

}  // namespace sullae
