#include "transport/store/address.h"

#include <fmt/format.h>
#include <netdb.h>

#include <cstring>
#include <memory>

#include "base/environment.h"
#include "sullae/error.h"

namespace sullae {

StoreAddress StoreAddress::parse(std::string_view text) {
  StoreAddress address;
  std::string_view rest = text;
  if (rest.starts_with("unix:")) {
    address.unix_name = rest.substr(5);
    if (address.unix_name.empty() || address.unix_name.size() > 100) {
      throw InputError(
          fmt::format("store address '{}': expected unix: and a name of 1 to 100 bytes", text));
    }
    return address;
  }
  if (rest.starts_with("tcp://")) rest.remove_prefix(6);
  const auto colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    throw InputError(fmt::format("store address '{}': expected HOST:PORT or unix:NAME", text));
  }
  address.host = rest.substr(0, colon);
  if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  address.port = static_cast<int>(parse_integer(
      rest.substr(colon + 1), fmt::format("the port in store address '{}'", text), 0, 65535));
  return address;
}

std::string StoreAddress::to_string() const {
  if (is_unix()) return "unix:" + unix_name;
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

std::vector<ResolvedAddress> resolve(const StoreAddress& address) {
  std::vector<ResolvedAddress> results;
  if (address.is_unix()) {
    ResolvedAddress resolved;
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    // A leading zero byte makes it abstract: it vanishes with its owner and leaves no file.
    std::memcpy(name.sun_path + 1, address.unix_name.data(), address.unix_name.size());
    resolved.length =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address.unix_name.size());
    std::memcpy(&resolved.storage, &name, sizeof name);
    resolved.family = AF_UNIX;
    results.push_back(resolved);
    return results;
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (error != 0)
    throw Error(
        fmt::format("host '{}' cannot be resolved: {}", address.host, ::gai_strerror(error)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    ResolvedAddress resolved;
    std::memcpy(&resolved.storage, entry->ai_addr, entry->ai_addrlen);
    resolved.length = entry->ai_addrlen;
    resolved.family = entry->ai_family;
    results.push_back(resolved);
  }
  return results;
}

}  // namespace sullae
