// Answers in JSON, and what clients are told of failures.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>

#include "serve/http/http.h"

namespace sullae::serve {

HttpResponse json_response(const nlohmann::json& body, int status = 200);
/// {"error": …} with the status and headers that belong to `error`.
HttpResponse failure_response(const std::exception_ptr& error);

}  // namespace sullae::serve
