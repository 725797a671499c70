#include "parallel/malloc_limits.h"

#include <malloc.h>

namespace sullae {

// Before 2.38 glibc does not use again what it has freed of large aligned blocks, as libtorch asks
// for them (https://sourceware.org/bugzilla/show_bug.cgi?id=14581): gradients of each step would
// come on top of those before, if they did not go back to the system. Of smaller ones fresh pages
// cost more than what is done with them.
void limit_malloc() {
  constexpr int kMapped = 2 << 20;
  constexpr int kKept = 32 << 20;
  [[maybe_unused]] static const bool set =
      ::mallopt(M_MMAP_THRESHOLD, kMapped) != 0 && ::mallopt(M_TRIM_THRESHOLD, kKept) != 0;
}

}  // namespace sullae
