#include "launch/hosts.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <sstream>

#include "base/environment.h"
#include "base/host.h"
#include "sullae/error.h"

namespace sullae {
namespace {

constexpr int kMostSlots = 100000;

bool is_ipv6(const std::string& text) {
  in6_addr address{};
  return ::inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

Host parse_host(std::string_view text, const std::string& where) {
  Host host;
  auto colon = text.find(':');
  const auto end = text.find(']');
  if (text.starts_with('[') && end != std::string_view::npos) {
    host.name = text.substr(1, end - 1);
    colon = end + 1 < text.size() ? end + 1 : std::string_view::npos;
    if (!is_ipv6(host.name) || (colon != std::string_view::npos && text[colon] != ':'))
      host.name.clear();
  } else {
    // An address of IPv6 has no slots but in brackets.
    if (is_ipv6(std::string(text))) colon = std::string_view::npos;
    host.name = text.substr(0, colon);
  }
  // A name that starts with a dash would be an option to ssh.
  if (host.name.empty() || host.name.front() == '-' ||
      host.name.find_first_of(" \t'\"$;|&<>[]") != std::string::npos) {
    throw InputError(
        fmt::format("{}: '{}' is not a host: expected NAME or NAME:SLOTS, and "
                    "[ADDRESS]:SLOTS of IPv6",
                    where, text));
  }
  if (colon != std::string_view::npos) {
    host.slots = static_cast<int>(
        parse_integer(text.substr(colon + 1),
                      fmt::format("{}: the slots of '{}'", where, host.name), 1, kMostSlots));
  }
  return host;
}

}  // namespace

std::vector<Host> parse_hosts(std::string_view text, const std::string& where) {
  std::vector<Host> hosts;
  while (true) {
    const auto comma = text.find(',');
    hosts.push_back(parse_host(text.substr(0, comma), where));
    if (comma == std::string_view::npos) return hosts;
    text.remove_prefix(comma + 1);
  }
}

std::vector<Host> read_hostfile(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) throw InputError(fmt::format("hostfile {}: cannot be read", file.string()));
  auto hosts = parse_host_lines(stream, fmt::format("hostfile {}", file.string()));
  if (hosts.empty()) throw InputError(fmt::format("hostfile {}: names no host", file.string()));
  return hosts;
}

std::vector<Host> parse_host_lines(std::istream& stream, const std::string& source) {
  std::vector<Host> hosts;
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    const std::string where = fmt::format("{}, line {}", source, number);
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    Host host = parse_host(word, where);
    while (words >> word) {
      if (!word.starts_with("slots=")) {
        throw InputError(fmt::format("{}: '{}' is not known: expected NAME slots=N", where, word));
      }
      host.slots = static_cast<int>(
          parse_integer(std::string_view(word).substr(6), where + ": slots", 1, kMostSlots));
    }
    hosts.push_back(host);
  }
  return hosts;
}

bool is_this_host(std::string_view name) {
  return name == "localhost" || name == "127.0.0.1" || name == "::1" || name == host_name();
}

std::vector<Placement> place_ranks(const std::vector<Host>& hosts, int ranks) {
  const int slots = std::accumulate(hosts.begin(), hosts.end(), 0,
                                    [](int sum, const Host& host) { return sum + host.slots; });
  if (ranks > slots) {
    std::vector<std::string> names;
    for (const Host& host : hosts) names.push_back(fmt::format("{}:{}", host.name, host.slots));
    throw InputError(
        fmt::format("-np asks for {} ranks, but the hosts have {} slots ({}): ask for fewer ranks, "
                    "or give the hosts "
                    "more slots",
                    ranks, slots, fmt::join(names, ", ")));
  }
  std::vector<Placement> placements;
  int next = 0;
  for (const Host& host : hosts) {
    Placement placement{.host = host};
    for (int i = 0; i < host.slots && next < ranks; ++i) placement.ranks.push_back(next++);
    if (placement.ranks.empty()) break;
    // A host that is named twice is one host with the slots of both.
    const auto same =
        std::ranges::find(placements, host.name, [](const Placement& p) { return p.host.name; });
    if (same == placements.end()) {
      placements.push_back(std::move(placement));
    } else {
      same->ranks.insert(same->ranks.end(), placement.ranks.begin(), placement.ranks.end());
    }
  }
  return placements;
}

}  // namespace sullae
