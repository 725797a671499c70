// What ranks that are about to join say in the rendezvous store.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace sullae {

/// Where a rank's settings and host stand, behind the generation of its world, "0/" in a job whose
/// ranks stay.
inline std::string joining_key(int rank) { return fmt::format("host/{}", rank); }
/// There instead: the rank's process has ended, and it is not waited for.
inline constexpr std::string_view kHasEnded = "\x01 has ended";

}  // namespace sullae
