// A connection whose other end is asked whether it is still there.
#pragma once

#include <chrono>

namespace sullae {

/// After so long without an answer to anything the connection counts as broken, at both ends.
inline constexpr std::chrono::milliseconds kStoreLease{2500};

/// By the kernel's keep-alives (tcp(7)), so that no thread is needed. Of a socket of this host it
/// does nothing.
void watch_connection(int socket);

}  // namespace sullae
