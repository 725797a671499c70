// What a client is told when its request cannot be answered.
#pragma once

#include <string>
#include <utility>

#include "sullae/error.h"

namespace sullae {

/// Each has a status of HTTP and one of gRPC; see status.h.
enum class Refusal {
  invalid,          ///< the request itself is wrong
  unauthenticated,  ///< no token, or one that is not known
  forbidden,        ///< the token's role does not allow it
  not_found,        ///< no such model, version or path
  wrong_method,     ///< the path is there, for another method
  conflict,         ///< what was asked for cannot be done in the present state
  too_large,
  unsupported_type,  ///< a body of another type than is taken
  overloaded,        ///< too many requests wait already
  timeout,           ///< waited for too long
  unavailable        ///< the model is not ready, or the server is about to end
};

class RequestError : public Error {
 public:
  RequestError(Refusal refusal, const std::string& message) : Error(message), refusal_(refusal) {}
  RequestError(Refusal refusal, const std::string& message, std::string allowed)
      : Error(message), refusal_(refusal), allowed_(std::move(allowed)) {}
  Refusal refusal() const { return refusal_; }
  /// Of wrong_method: those that there are, "GET, POST".
  const std::string& allowed() const { return allowed_; }

 private:
  Refusal refusal_;
  std::string allowed_;
};

/// The request itself is wrong.
[[noreturn]] inline void refuse(const std::string& message) {
  throw RequestError(Refusal::invalid, message);
}

}  // namespace sullae
