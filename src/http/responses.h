// Answers in JSON, and what clients are told of failures.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "http/exchange.h"

namespace sullae::http {

Response json_response(const nlohmann::json& body, int status = 200);
/// {"error": …} with the status and headers that belong to `error`.
Response failure_response(const std::exception_ptr& error);

/// A Handler that tells clients so, too.
class JsonHandler : public Handler {
 public:
  std::optional<Response> refuse_early(const Request& head) final;
  Response refuse(int status, const std::string& message) final;

 private:
  /// Throws RequestError for what is not to be answered. Any thread.
  virtual void check(const Request& head) const = 0;
};

/// Calls `step`, and responds what it throws.
template <class Step>
void attempt(const Respond& respond, const Step& step) {
  try {
    step();
  } catch (const std::exception&) {
    respond(failure_response(std::current_exception()));
  }
}

}  // namespace sullae::http
