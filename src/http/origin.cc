#include "http/origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>

#include "base/ascii.h"
#include "base/host.h"
#include "base/request_error.h"

namespace sullae::http {
namespace {

// Of "name:8000", "[::1]:8000" and "name".
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) {
    const auto end = std::min(host.find(']'), host.size());
    const auto rest = host.substr(std::min(end + 1, host.size()));
    return rest.empty() || rest.front() == ':' ? host.substr(1, end - 1) : host;
  }
  return host.substr(0, host.rfind(':'));
}

}  // namespace

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

KnownHosts::KnownHosts(const std::string& own, const std::vector<std::string>& more) {
  names_ = {"localhost", to_lower(host_name()), to_lower(own)};
  for (const auto& name : more) names_.insert(to_lower(name));
}

// What leads here by an address cannot be another site's name.
bool KnownHosts::knows(std::string_view host) const {
  const std::string name = to_lower(without_port(host));
  boost::system::error_code error;
  boost::asio::ip::make_address(name, error);
  return !error || names_.contains(name);
}

std::string KnownHosts::objection(std::string_view host, std::string_view origin) const {
  if (!host.empty() && !knows(host))
    return fmt::format(
        "this server does not go by the name '{}': add it with --allowed-host, or protect the "
        "server with --tokens-file",
        without_port(host));
  if (origin.empty()) return {};
  const auto scheme = origin.find("://");
  if (scheme != std::string_view::npos && to_lower(origin.substr(scheme + 3)) == to_lower(host))
    return {};
  return fmt::format("pages of '{}' may not send requests to this server", origin);
}

void KnownHosts::check(const Request& head) const {
  if (const auto why = objection(head.header("host"), head.header("origin")); !why.empty())
    throw RequestError(Refusal::forbidden, why);
}

}  // namespace sullae::http
