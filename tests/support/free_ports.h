// Ports that nobody has, found by having them a moment before.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/fd.h"

namespace sullae::testing {

/// Of this host's loopback device, each another one.
inline std::vector<std::string> free_ports(std::size_t count) {
  std::vector<UniqueFd> sockets;
  std::vector<std::string> ports;
  while (ports.size() < count) {
    sockets.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    socklen_t size = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(sockets.back().get(), reinterpret_cast<sockaddr*>(&address), size);
    ::getsockname(sockets.back().get(), reinterpret_cast<sockaddr*>(&address), &size);
    ports.push_back(std::to_string(ntohs(address.sin_port)));
  }
  return ports;
}

}  // namespace sullae::testing
