#include "transport/store/listen.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>
#include <string>

#include "base/system_error.h"

namespace sullae {

// Debian's /etc/hosts says "127.0.1.1 node1" on node1.
ResolvedAddress listening_address(const StoreAddress& address, const ResolvedAddress& resolved) {
  in6_addr literal{};
  const bool is_for_here = address.host.starts_with("localhost") ||
                           ::inet_pton(AF_INET, address.host.c_str(), &literal) == 1 ||
                           ::inet_pton(AF_INET6, address.host.c_str(), &literal) == 1;
  ResolvedAddress listening = resolved;
  if (resolved.family == AF_INET && !is_for_here) {
    auto& name = reinterpret_cast<sockaddr_in&>(listening.storage);
    if (ntohl(name.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET) name.sin_addr.s_addr = INADDR_ANY;
  }
  if (resolved.family == AF_INET6 && !is_for_here) {
    auto& name = reinterpret_cast<sockaddr_in6&>(listening.storage);
    if (IN6_IS_ADDR_LOOPBACK(&name.sin6_addr)) name.sin6_addr = in6addr_any;
  }
  return listening;
}

UniqueFd listen_on(const StoreAddress& address) {
  std::string failure = "no address found";
  for (const auto& known : resolve(address)) {
    const ResolvedAddress resolved = listening_address(address, known);
    UniqueFd fd(::socket(resolved.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int yes = 1;
    if (resolved.family != AF_UNIX)
      ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    const bool bound = fd && ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&resolved.storage),
                                    resolved.length) == 0;
    if (bound && ::listen(fd.get(), SOMAXCONN) == 0) return fd;
    failure = std::strerror(errno);
    if (errno == EADDRINUSE) {
      failure = "the address is in use by another program; choose another port or end that program";
    }
  }
  throw Error(
      fmt::format("the rendezvous store cannot listen on {}: {}", address.to_string(), failure));
}

int port_of(int fd) {
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0)
    throw system_error("getsockname");
  if (name.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(name).sin_port);
  if (name.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6&>(name).sin6_port);
  return 0;
}

}  // namespace sullae
