#include "serve/rest/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/percent.h"
#include "base/request_error.h"

namespace sullae::serve {
namespace {

// Slashes that follow each other are one.
std::vector<std::string_view> segments_of(std::string_view path) {
  std::vector<std::string_view> segments;
  while (!path.empty()) {
    const auto slash = std::min(path.find('/'), path.size());
    if (slash > 0) segments.push_back(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return segments;
}

// "name" and ":action"; a name may hold no colon.
std::pair<std::string_view, std::string_view> split_action(std::string_view segment) {
  const auto colon = std::min(segment.find(':'), segment.size());
  return {segment.substr(0, colon), segment.substr(colon)};
}

std::optional<Match> match(const Route& route, const std::vector<std::string>& path) {
  const auto pattern = segments_of(route.pattern);
  if (pattern.size() != path.size()) return std::nullopt;
  Match match{.route = &route, .model = {}, .version = {}};
  for (std::size_t i = 0; i < path.size(); ++i) {
    const auto [wanted, wanted_action] = split_action(pattern[i]);
    if (!wanted.starts_with('{')) {
      if (path[i] != pattern[i]) return std::nullopt;
      continue;
    }
    const auto [name, action] = split_action(path[i]);
    if (action != wanted_action || name.empty()) return std::nullopt;
    (wanted == "{model}" ? match.model : match.version) = name;
  }
  return match;
}

}  // namespace

void Router::add(std::vector<Route> routes) {
  routes_.insert(routes_.end(), std::make_move_iterator(routes.begin()),
                 std::make_move_iterator(routes.end()));
}

Match Router::find(const http::Request& head) const {
  std::vector<std::string> path;
  for (const auto segment : segments_of(head.path)) path.push_back(percent_decode(segment));
  const std::string method = head.method == "HEAD" ? "GET" : head.method;
  std::string others;
  for (const Route& route : routes_) {
    auto found = match(route, path);
    if (!found) continue;
    if (route.method == method) return *found;
    others += fmt::format("{}{}", others.empty() ? "" : ", ", route.method);
  }
  if (!others.empty())
    throw RequestError(Refusal::wrong_method,
                       fmt::format("{} {}: expected {}", head.method, head.path, others), others);
  explain_action(path);
  throw RequestError(Refusal::not_found, fmt::format("there is nothing at {}", head.path));
}

// Of an action that there is not, those that there are.
void Router::explain_action(const std::vector<std::string>& path) const {
  if (path.empty()) return;
  const auto action = split_action(path.back()).second;
  if (action.empty()) return;
  std::vector<std::string> others;
  for (const Route& route : routes_) {
    const auto pattern = segments_of(route.pattern);
    if (pattern.size() != path.size() || pattern[0] != path[0] || pattern.size() < 2 ||
        pattern[1] != path[1])
      continue;
    if (const auto other = split_action(pattern.back()).second; !other.empty())
      others.emplace_back(other.substr(1));
  }
  // It is there, and what is not is the path before it.
  const bool is_there = std::ranges::find(others, action.substr(1)) != others.end();
  if (others.empty() || is_there) return;
  throw RequestError(Refusal::not_found, fmt::format("there is no call '{}'; there are {}", action,
                                                     fmt::join(others, ", ")));
}

}  // namespace sullae::serve
