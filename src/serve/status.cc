#include "serve/status.h"

namespace sullae::serve {

int http_status(Refusal refusal) {
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

Failure describe(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const RequestError& refused) {
    return {http_status(refused.refusal()), refused.what()};
  } catch (const std::exception& failure) {
    return {500, failure.what()};
  }
}

}  // namespace sullae::serve
