// How many files, sockets and the like this process may have open (RLIMIT_NOFILE).
#pragma once

#include <cstddef>
#include <string>

namespace sullae {

/// All that the system's administrator lets this process have.
inline constexpr std::size_t kMostDescriptors = static_cast<std::size_t>(-1);

/// Raises the soft limit, commonly 1,024, to `wanted`, or to the hard limit where that is lower;
/// never lowers it. Returns how many there may be then. Any thread.
std::size_t allow_descriptors(std::size_t wanted);

/// What to say behind strerror(error): which limit was met and what helps, where it is this
/// process's of descriptors; else nothing.
std::string descriptors_hint(int error);

}  // namespace sullae
