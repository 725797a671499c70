// A line of the table of what a client can ask for: method, path, role, and what answers.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "http/access.h"
#include "http/exchange.h"
#include "serve/batching/batcher.h"

namespace sullae::serve {

/// A request that may be answered.
struct Call {
  http::Request request;
  /// Names in its path; empty where the pattern has none.
  std::string model;
  std::string version;
  /// Whose token came with it; empty where none is asked for.
  std::string author;
  Clock::time_point arrived = Clock::now();
};
using CallPointer = std::shared_ptr<const Call>;

/// Responds once, at once or later, or throws what is to be responded. It is called in a thread
/// that reads requests, where nothing may take long.
using Handler = std::function<void(const CallPointer&, const http::Respond&)>;

struct Route {
  /// GET answers HEAD too.
  std::string method;
  /// Segments, of which {model} and {version} stand for any name, perhaps with an action behind a
  /// colon.
  std::string pattern;
  http::Role role;
  Handler handler;
  /// What {model} must be before the handler is called.
  enum class Model { served, any } model = Model::served;
};

}  // namespace sullae::serve
