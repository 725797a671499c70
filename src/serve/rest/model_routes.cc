#include <fmt/format.h>

#include <cstdint>

#include "base/number.h"
#include "base/request_error.h"
#include "http/responses.h"
#include "serve/protocol/json_tensors.h"
#include "serve/protocol/status_json.h"
#include "serve/rest/routes.h"

namespace sullae::serve {
namespace {

// {"ready": true}, of POST.
bool asks_for_ready(const Call& call) {
  if (call.request.body.empty()) return false;
  const auto body = parse_json(call.request.body, call.request.memory.get());
  const auto ready = body.is_object() ? body.find("ready") : body.end();
  if (!body.is_object() || (ready != body.end() && !ready->is_boolean()))
    refuse("expected {\"ready\": true or false}");
  return ready != body.end() && ready->get<bool>();
}

}  // namespace

std::vector<Route> model_routes(Repository& repository, Workers& workers) {
  const auto metadata = in(workers.disk, [&](const Call& call) {
    const auto version = repository.look_up(call.model, call.version);
    return http::json_response(model_metadata(repository.status(call.model), version->model()));
  });
  // Whoever asks: why one is not is for those who may read.
  const auto ready = here([&](const Call& call) {
    try {
      repository.look_up(call.model, call.version);
    } catch (const RequestError& error) {
      if (error.refusal() != Refusal::unavailable) throw;
      auto answer = http::json_response({{"name", call.model}, {"ready", false}});
      answer.status = 503;
      return answer;
    }
    return http::json_response({{"name", call.model}, {"ready", true}});
  });
  const auto index = in(workers.disk, [&](const Call& call) {
    return http::json_response(repository_index(repository.index(), asks_for_ready(call)));
  });
  const auto configuration = in(workers.disk, [&](const Call& call) {
    const auto version = repository.look_up(call.model, call.version);
    return http::json_response(model_configuration(call.model, version->model()));
  });
  const auto statistics = in(workers.disk, [&](const Call& call) {
    repository.look_up(call.model, call.version);
    return http::json_response(model_statistics({repository.status(call.model)}, call.version));
  });
  const auto states = in(workers.disk, [&](const Call& call) {
    auto status = repository.status(call.model);
    if (!call.version.empty()) {
      // Also of one that is loading, or was refused.
      const auto number = number_in<std::int64_t>(call.version).value_or(0);
      std::erase_if(status.versions, [&](const auto& one) { return one.number != number; });
      if (status.versions.empty())
        throw RequestError(Refusal::not_found,
                           fmt::format("model '{}' has no version {}", call.model, call.version));
    }
    return http::json_response(version_states(status));
  });
  return {
      // Open Inference Protocol v2, with the repository extension.
      // Before a model of that name.
      {"GET", "v2/models/stats", http::Role::read,
       in(workers.disk,
          [&](const Call&) {
            return http::json_response(model_statistics(repository.index(), ""));
          })},
      {"GET", "v2/models/{model}", http::Role::read, metadata},
      {"GET", "v2/models/{model}/versions/{version}", http::Role::read, metadata},
      {"GET", "v2/models/{model}/ready", http::Role::none, ready},
      {"GET", "v2/models/{model}/versions/{version}/ready", http::Role::none, ready},
      {"GET", "v2/models/{model}/stats", http::Role::read, statistics},
      {"GET", "v2/models/{model}/versions/{version}/stats", http::Role::read, statistics},
      {"GET", "v2/models/{model}/config", http::Role::read, configuration},
      {"GET", "v2/models/{model}/versions/{version}/config", http::Role::read, configuration},
      {"GET", "v2/repository/index", http::Role::read, index},
      {"POST", "v2/repository/index", http::Role::read, index},
      // TensorFlow Serving's.
      {"GET", "v1/models/{model}", http::Role::read, states},
      {"GET", "v1/models/{model}/versions/{version}", http::Role::read, states},
      // The page's.
      {"GET", "v1/models", http::Role::read,
       in(workers.disk,
          [&](const Call&) { return http::json_response(overview(repository.index())); })},
  };
}

}  // namespace sullae::serve
