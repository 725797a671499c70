#include "http/responses.h"
#include "serve/page/page.h"
#include "serve/protocol/status_json.h"
#include "serve/repository/repository_metrics.h"
#include "serve/rest/routes.h"

namespace sullae::serve {
namespace {

std::string metrics(Repository& repository, OnlineApi& online) {
  MetricsText text;
  const auto models = repository.index();
  write_metrics(models, text);
  std::vector<std::string> names;
  for (const auto& model : models) names.push_back(model.name);
  online.write_metrics(names, text);
  return text.text();
}

}  // namespace

std::vector<Route> server_routes(Repository& repository, OnlineApi& online, Workers& workers) {
  return {
      {"GET", "", http::Role::none, here([](const Call&) -> http::Response {
         return {.content_type = "text/html; charset=utf-8",
                 .body = page(),
                 .headers = {{"Cache-Control", "no-cache"},
                             {"X-Frame-Options", "DENY"},
                             {"X-Content-Type-Options", "nosniff"}}};
       })},
      {"GET", "metrics", http::Role::read,
       in(workers.disk,
          [&](const Call&) -> http::Response {
            return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
                    .body = metrics(repository, online)};
          })},
      // Open Inference Protocol v2.
      {"GET", "v2", http::Role::none,
       here([](const Call&) { return http::json_response(server_metadata()); })},
      {"GET", "v2/health/live", http::Role::none, here([](const Call&) {
         return http::json_response({{"live", true}});
       })},
      {"GET", "v2/health/ready", http::Role::none, here([&](const Call&) {
         const bool ready = repository.ready();
         return http::json_response({{"ready", ready}}, ready ? 200 : 503);
       })},
  };
}

}  // namespace sullae::serve
