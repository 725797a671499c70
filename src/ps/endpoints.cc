#include "ps/endpoints.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "base/environment.h"
#include "base/fd.h"
#include "base/split.h"
#include "base/system_error.h"
#include "transport/settings.h"
#include "transport/store/job_store.h"
#include "transport/tf_config.h"

namespace sullae::ps {
namespace {

constexpr std::chrono::seconds kStartLimit{10};
constexpr std::chrono::seconds kLookLimit{1};

Deadline start_deadline() { return {kStartLimit, "the start of a parameter server"}; }

std::string key_of(int server) { return fmt::format("ps/{}", server); }

// This host's address on the way to another.
std::string address_towards(const StoreAddress& other) {
  // By IPv4 where there is one: servers of other hosts may have no other.
  const auto all = resolve(other);
  const auto ipv4 = std::ranges::find(all, AF_INET, &ResolvedAddress::family);
  const ResolvedAddress& target = ipv4 == all.end() ? all.front() : *ipv4;
  // Connecting sends nothing here.
  const UniqueFd fd(::socket(target.family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (!fd ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&target.storage), target.length) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0)
    throw system_error("finding this host's address");
  char text[INET6_ADDRSTRLEN] = {};
  if (own.ss_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(own).sin6_addr, text, sizeof text);
    return fmt::format("[{}]", text);
  }
  ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(own).sin_addr, text, sizeof text);
  return text;
}

std::vector<std::string> of_tf_config(const Environment& environment) {
  std::vector<std::string> endpoints;
  if (const auto config = tf_config(environment)) {
    for (const std::string& server : config->servers) endpoints.push_back("tcp://" + server);
  }
  return endpoints;
}

}  // namespace

bool has_servers(const Environment& environment) {
  const auto is_set = [&](const char* name) {
    return environment(name).has_value();
  };
  if (is_set("SULLAE_PS_SERVERS") || (is_set("SULLAE_PS") && is_set("SULLAE_STORE"))) return true;
  const auto config = tf_config(environment);
  return config && !config->servers.empty();
}

std::vector<std::string> find_endpoints(const Environment& environment) {
  std::string list;
  read_text(environment, "SULLAE_PS_SERVERS", list);
  if (!list.empty()) return split(list, ',');
  std::size_t count = 0;
  std::string store;
  read_count(environment, "SULLAE_PS", count);
  read_text(environment, "SULLAE_STORE", store);
  if (count == 0 || store.empty()) return of_tf_config(environment);
  const Deadline deadline(RendezvousSettings::from(environment).timeout);
  Store client = job_store(environment, deadline);
  std::vector<std::string> endpoints;
  for (std::size_t i = 0; i < count; ++i)
    endpoints.push_back(client.get(key_of(static_cast<int>(i)), deadline));
  return endpoints;
}

Registration::Registration(const Environment& environment, int server) : server_(server) {
  read_text(environment, "SULLAE_STORE", store_);
  read_text(environment, "SULLAE_JOB_SECRET", secret_);
}

std::string Registration::key() const { return key_of(server_); }

std::string Registration::where() const {
  const auto address = StoreAddress::parse(store_);
  const Deadline deadline = start_deadline();
  Store store(address, deadline, {}, secret_);
  std::string port = "*";
  if (store.add(key() + "/starts", 1, deadline) > 1) {
    try {
      const std::string before = store.get(key(), Deadline(kLookLimit, "the limit for a look"));
      port = before.substr(before.rfind(':') + 1);
    } catch (const TimeoutError&) {
      // It was killed before it said where it is: nobody looks for it elsewhere.
    }
  }
  return fmt::format("tcp://{}:{}", address.is_unix() ? "127.0.0.1" : "*", port);
}

void Registration::publish(const std::string& bound, const std::string& host) const {
  const auto address = StoreAddress::parse(store_);
  std::string endpoint = bound;
  if (!address.is_unix())
    endpoint = fmt::format("tcp://{}{}", host.empty() ? address_towards(address) : host,
                           bound.substr(bound.rfind(':')));
  const Deadline deadline = start_deadline();
  Store(address, deadline, {}, secret_).set(key(), endpoint, deadline);
}

}  // namespace sullae::ps
