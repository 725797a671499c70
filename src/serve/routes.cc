#include "serve/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "serve/request_error.h"

namespace sullae::serve {
namespace {

constexpr Route kRoutes[] = {
    {"GET", "", Role::none, Call::page},
    {"GET", "metrics", Role::read, Call::metrics},
    // Open Inference Protocol v2, with the repository extension.
    {"GET", "v2", Role::none, Call::server_metadata},
    {"GET", "v2/health/live", Role::none, Call::live},
    {"GET", "v2/health/ready", Role::none, Call::ready},
    {"GET", "v2/models/{model}", Role::read, Call::model_metadata},
    {"GET", "v2/models/{model}/versions/{version}", Role::read, Call::model_metadata},
    {"GET", "v2/models/{model}/ready", Role::none, Call::model_ready},
    {"GET", "v2/models/{model}/versions/{version}/ready", Role::none, Call::model_ready},
    {"POST", "v2/models/{model}/infer", Role::infer, Call::infer},
    {"POST", "v2/models/{model}/versions/{version}/infer", Role::infer, Call::infer},
    {"POST", "v2/repository/index", Role::read, Call::repository_index},
    {"GET", "v2/repository/index", Role::read, Call::repository_index},
    {"POST", "v2/repository/models/{model}/load", Role::operate, Call::load},
    // TensorFlow Serving's, and the operators' calls in its manner.
    {"GET", "v1/models", Role::read, Call::models},
    {"GET", "v1/models/{model}", Role::read, Call::version_states},
    {"GET", "v1/models/{model}/versions/{version}", Role::read, Call::version_states},
    {"POST", "v1/models/{model}:predict", Role::infer, Call::predict},
    {"POST", "v1/models/{model}/versions/{version}:predict", Role::infer, Call::predict},
    {"POST", "v1/models/{model}:rollback", Role::operate, Call::roll_back},
    {"POST", "v1/models/{model}:canary", Role::operate, Call::set_canary},
    {"POST", "v1/models/{model}:reload", Role::operate, Call::reload},
    {"POST", "v1/models/{model}:train", Role::operate, Call::train},
    {"GET", "v1/models/{model}/examples", Role::operate, Call::get_examples},
    {"POST", "v1/models/{model}/examples", Role::operate, Call::post_examples},
    {"GET", "v1/models/{model}/online", Role::read, Call::online_status},
};

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string percent_decoded(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool coded =
        text[i] == '%' && i + 2 < text.size() && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0;
    result += coded ? static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2])) : text[i];
    if (coded) i += 2;
  }
  return result;
}

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
  Match match{.route = route, .model = {}, .version = {}};
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

// Of a call that there is not, those that there are.
void explain_action(const std::vector<std::string>& path) {
  if (path.size() != 3 || path[0] != "v1" || path[1] != "models") return;
  const auto action = split_action(path[2]).second;
  if (action.empty()) return;
  throw RequestError(
      Refusal::not_found,
      fmt::format("there is no call '{}'; there are predict, rollback, canary, reload and train",
                  action));
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

Match find_route(const HttpRequest& head) {
  std::vector<std::string> path;
  for (const auto segment : segments_of(head.path)) path.push_back(percent_decoded(segment));
  const std::string method = head.method == "HEAD" ? "GET" : head.method;
  std::string others;
  for (const Route& route : kRoutes) {
    auto found = match(route, path);
    if (!found) continue;
    if (route.method == method) return *found;
    others += fmt::format("{}{}", others.empty() ? "" : ", ", route.method);
  }
  if (!others.empty())
    throw RequestError(Refusal::wrong_method,
                       fmt::format("{} {}: expected {}", head.method, head.path, others));
  explain_action(path);
  throw RequestError(Refusal::not_found, fmt::format("there is nothing at {}", head.path));
}

}  // namespace sullae::serve
