#include <cstdint>
#include <limits>

#include "base/request_error.h"
#include "http/responses.h"
#include "serve/protocol/json_tensors.h"
#include "serve/protocol/status_json.h"
#include "serve/rest/routes.h"

namespace sullae::serve {
namespace {

using nlohmann::json;

constexpr const char* kCanaryForm = "expected {\"version\": N, \"percent\": 0 to 100}";

std::int64_t whole_number(const json& object, const char* name, std::int64_t most) {
  const auto found = object.find(name);
  const bool good = found != object.end() && found->is_number_integer() &&
                    (!found->is_number_unsigned() ||
                     found->get<std::uint64_t>() <= static_cast<std::uint64_t>(most)) &&
                    found->get<std::int64_t>() >= 0 && found->get<std::int64_t>() <= most;
  if (!good) refuse(kCanaryForm);
  return found->get<std::int64_t>();
}

http::Response set_canary(Repository& repository, const Call& call) {
  const json body = parse_json(call.request.body, call.request.memory.get());
  if (!body.is_object() || body.size() != 2) refuse(kCanaryForm);
  const auto version = whole_number(body, "version", std::numeric_limits<std::int64_t>::max());
  const auto percent = static_cast<int>(whole_number(body, "percent", 100));
  return http::json_response(overview({repository.set_canary(call.model, version, percent)}));
}

// The repository extension's names.
http::Response load(Repository& repository, const Call& call) {
  if (!call.request.body.empty()) {
    const json body = parse_json(call.request.body, call.request.memory.get());
    const auto parameters = body.is_object() ? body.find("parameters") : body.end();
    if (parameters != body.end() && !parameters->empty()) refuse(kNoLoadParameters);
  }
  return http::json_response(overview({repository.reload(call.model)}));
}

}  // namespace

std::vector<Route> operator_routes(Repository& repository, Workers& workers) {
  return {
      {"POST", "v1/models/{model}:rollback", http::Role::operate,
       in(workers.operators,
          [&](const Call& call) {
            expect_no_body(call,
                           "which goes back to the version before: another one answers by :canary "
                           "with \"percent\": 100");
            return http::json_response(overview({repository.roll_back(call.model)}));
          })},
      {"POST", "v1/models/{model}:canary", http::Role::operate,
       in(workers.operators, [&](const Call& call) { return set_canary(repository, call); })},
      {"POST", "v1/models/{model}:reload", http::Role::operate,
       in(workers.loaders,
          [&](const Call& call) {
            expect_no_body(call, "which looks at all that is there");
            return http::json_response(overview({repository.reload(call.model)}));
          }),
       Route::Model::any},
      {"POST", "v2/repository/models/{model}/load", http::Role::operate,
       in(workers.loaders, [&](const Call& call) { return load(repository, call); }),
       Route::Model::any},
      {"POST", "v2/repository/models/{model}/unload", http::Role::operate,
       here([](const Call&) -> http::Response { refuse(kNoUnload); })},
  };
}

}  // namespace sullae::serve
