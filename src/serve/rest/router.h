// Finds the route of a request.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "serve/rest/route.h"

namespace sullae::serve {

/// A request's route, which is the router's, and the names in its path.
struct Match {
  const Route* route = nullptr;
  std::string model;
  std::string version;
};

/// Any thread.
class Router {
 public:
  /// Appends to the table.
  void add(std::vector<Route> routes);
  /// All that there is.
  std::span<const Route> routes() const { return routes_; }

  /// Throws RequestError: not_found where no pattern fits the path of `head`, wrong_method where
  /// only other methods do.
  Match find(const http::Request& head) const;

 private:
  void explain_action(const std::vector<std::string>& path) const;

  std::vector<Route> routes_;
};

}  // namespace sullae::serve
