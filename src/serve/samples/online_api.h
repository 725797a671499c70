// GET v1/models/<model>/online and POST v1/models/<model>:train, and their metrics.
#pragma once

#include <string>
#include <vector>

#include "http/exchange.h"
#include "online/model_stores.h"
#include "serve/metrics.h"

namespace sullae::serve {

/// Any thread may call it.
class OnlineApi {
 public:
  /// `stores` must outlive this object.
  explicit OnlineApi(online::ModelStores& stores) : stores_(stores) {}

  /// Samples, what waits, and the last rounds, at most "limit" (20) of `query`. Throws
  /// RequestError.
  http::Response status(const std::string& model, const std::string& query);
  /// Asks the process that learns for a round now.
  http::Response call(const std::string& model, const std::string& author);
  /// Of `models`, those that have samples.
  void write_metrics(const std::vector<std::string>& models, MetricsText& text);

 private:
  online::ModelStores& stores_;
};

}  // namespace sullae::serve
