// Whose process is at the other end of a socket of this host.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

namespace sullae {

/// The user's number; -1 where the kernel does not say.
inline uid_t peer_user(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 ? peer.uid
                                                                        : static_cast<uid_t>(-1);
}

inline bool is_own_or_root(uid_t user) { return user == ::geteuid() || user == 0; }

}  // namespace sullae
