#include "transport/store/lease.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace sullae {

void watch_connection(int socket) {
  const int on = 1;
  const int second = 1;
  const int probes = 2;
  const auto limit = static_cast<unsigned>(kStoreLease.count());
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof second);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof second);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof limit);
}

}  // namespace sullae
