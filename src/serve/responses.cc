#include "serve/responses.h"

#include "serve/protocol/json_tensors.h"
#include "serve/status.h"

namespace sullae::serve {

HttpResponse json_response(const nlohmann::json& body, int status) {
  return {.status = status, .body = dump_json(body)};
}

HttpResponse failure_response(const std::exception_ptr& error) {
  const Failure failure = describe(error);
  HttpResponse response = json_response({{"error", failure.message}}, failure.http_status);
  if (failure.http_status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (failure.http_status == 429) response.headers.emplace_back("Retry-After", "1");
  return response;
}

}  // namespace sullae::serve
