// Where the rendezvous store listens: "tcp://host:port", "host:port", or "unix:name" (an abstract
// socket of this host).
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <string_view>
#include <vector>

namespace sullae {

struct StoreAddress {
  std::string host;       ///< empty for a unix address
  int port = 0;           ///< 0 lets a server choose
  std::string unix_name;  ///< empty for TCP

  /// Throws InputError that says what was expected.
  static StoreAddress parse(std::string_view text);
  std::string to_string() const;
  bool is_unix() const { return !unix_name.empty(); }
};

struct ResolvedAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  int family = 0;
};

/// The socket addresses that `address` stands for, in the order in which to try them. Throws Error
/// where the name is not known.
std::vector<ResolvedAddress> resolve(const StoreAddress& address);

}  // namespace sullae
