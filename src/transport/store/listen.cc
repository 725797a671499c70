#include "transport/store/listen.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/system_error.h"

namespace sullae {

namespace {

// Not by a name that other hosts know.
bool is_for_here(const StoreAddress& address) {
  in6_addr literal{};
  return address.host.starts_with("localhost") ||
         ::inet_pton(AF_INET, address.host.c_str(), &literal) == 1 ||
         ::inet_pton(AF_INET6, address.host.c_str(), &literal) == 1;
}

}  // namespace

// Debian's /etc/hosts says "127.0.1.1 node1" on node1.
ResolvedAddress listening_address(const StoreAddress& address, const ResolvedAddress& resolved) {
  ResolvedAddress listening = resolved;
  if (is_for_here(address)) return listening;
  if (resolved.family == AF_INET) {
    auto& name = reinterpret_cast<sockaddr_in&>(listening.storage);
    if (ntohl(name.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET) name.sin_addr.s_addr = INADDR_ANY;
  }
  if (resolved.family == AF_INET6) {
    auto& name = reinterpret_cast<sockaddr_in6&>(listening.storage);
    if (IN6_IS_ADDR_LOOPBACK(&name.sin6_addr)) name.sin6_addr = in6addr_any;
  }
  return listening;
}

UniqueFd listen_on(const StoreAddress& address) {
  std::string failure = "no address found";
  std::vector<ResolvedAddress> tried;
  for (const auto& known : resolve(address)) tried.push_back(listening_address(address, known));
  if (!address.is_unix() && !is_for_here(address)) {
    const StoreAddress everywhere{.host = kEverywhere, .port = address.port, .unix_name = ""};
    for (const auto& one : resolve(everywhere)) tried.push_back(one);
  }
  // Where this host has no IPv6.
  if (!address.is_unix() && (!is_for_here(address) || address.host == kEverywhere)) {
    for (const auto& one : resolve({.host = "0.0.0.0", .port = address.port, .unix_name = ""}))
      tried.push_back(one);
  }
  for (const ResolvedAddress& resolved : tried) {
    UniqueFd fd(::socket(resolved.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) {
      failure = std::strerror(errno);
      if (errno == EAFNOSUPPORT) continue;  // a kernel without IPv6
      break;
    }
    const int yes = 1;
    const int no = 0;
    if (resolved.family != AF_UNIX)
      ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (resolved.family == AF_INET6)
      ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    const bool bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&resolved.storage),
                              resolved.length) == 0;
    if (bound && ::listen(fd.get(), SOMAXCONN) == 0) return fd;
    failure = std::strerror(errno);
    if (errno == EADDRNOTAVAIL) continue;  // this host's are others
    if (errno == EADDRINUSE)
      failure = "the address is in use by another program; choose another port or end that program";
    break;
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
