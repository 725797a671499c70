// Which path does what, for whom.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/access.h"
#include "serve/http/http.h"

namespace sullae::serve {

/// What a client can ask for.
enum class Call {
  page,
  metrics,
  server_metadata,
  live,
  ready,
  model_metadata,
  model_ready,
  infer,
  repository_index,
  load,
  models,
  version_states,
  predict,
  roll_back,
  set_canary,
  reload,
  train,
  get_examples,
  post_examples,
  online_status
};

struct Route {
  /// GET answers HEAD too.
  std::string_view method;
  /// Segments, of which {model} and {version} stand for any name, perhaps with an action behind a colon.
  std::string_view pattern;
  Role role;
  Call call;
};

/// All that there is.
std::span<const Route> routes();

/// A request's route, and the names in its path.
struct Match {
  Route route;
  std::string model;
  std::string version;
};

/// Throws RequestError: not_found where no pattern fits the path of `head`, wrong_method where only other methods
/// do.
Match find_route(const HttpRequest& head);

}  // namespace sullae::serve
