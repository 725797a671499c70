// Which names a server without tokens goes by. A page of another site that an operator's browser
// shows can send requests to it too, under that site's Origin, or under a name of the site's that
// leads here (DNS rebinding).
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "http/exchange.h"

namespace sullae::http {

/// Whether what listens there is reached from this machine alone.
bool is_loopback(std::string_view host);

/// Any thread may call it.
class KnownHosts {
 public:
  /// Addresses, localhost, this machine's name, `own`, which the server listens at, and `more` are
  /// known.
  KnownHosts(const std::string& own, const std::vector<std::string>& more);

  /// Why a request with these headers is refused, or an empty text. `host` and `origin` may be
  /// empty: no browser leaves Host out.
  std::string objection(std::string_view host, std::string_view origin) const;
  /// Throws RequestError (forbidden) with that.
  void check(const Request& head) const;

 private:
  bool knows(std::string_view host) const;

  std::set<std::string> names_;
};

}  // namespace sullae::http
