// Refusals as HTTP's status codes.
#pragma once

#include <exception>
#include <string>

#include "base/request_error.h"

namespace sullae::serve {

int http_status(Refusal refusal);

struct Failure {
  int http_status = 500;
  std::string message;
};
/// What to tell a client of an exception.
Failure describe(const std::exception_ptr& error);

}  // namespace sullae::serve
