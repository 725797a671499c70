#include "http/responses.h"

#include "base/dump_json.h"
#include "base/request_error.h"

namespace sullae::http {
namespace {

using nlohmann::json;

int status_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::invalid:
      return 400;
    case Refusal::unauthenticated:
      return 401;
    case Refusal::forbidden:
      return 403;
    case Refusal::not_found:
      return 404;
    case Refusal::wrong_method:
      return 405;
    case Refusal::unsupported_type:
      return 415;
    case Refusal::conflict:
      return 409;
    case Refusal::too_large:
      return 413;
    case Refusal::overloaded:
      return 429;
    case Refusal::timeout:
      return 504;
    case Refusal::unavailable:
      return 503;
  }
  return 500;
}

Response refusal_response(int status, const std::string& message, const std::string& allowed = {}) {
  Response response = json_response({{"error", message}}, status);
  if (!allowed.empty()) response.headers.emplace_back("Allow", allowed);
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (status == 429) response.headers.emplace_back("Retry-After", "1");
  return response;
}

}  // namespace

Response json_response(const json& body, int status) {
  // What a client sent, and is told of, need not be UTF-8.
  return {.status = status, .body = dump_json(body)};
}

Response failure_response(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const RequestError& refused) {
    return refusal_response(status_of(refused.refusal()), refused.what(), refused.allowed());
  } catch (const std::exception& failure) {
    return refusal_response(500, failure.what());
  }
}

std::optional<Response> JsonHandler::refuse_early(const Request& head) {
  try {
    check(head);
  } catch (const std::exception&) {
    return failure_response(std::current_exception());
  }
  return std::nullopt;
}

Response JsonHandler::refuse(int status, const std::string& message) {
  return json_response({{"error", message}}, status);
}

}  // namespace sullae::http
