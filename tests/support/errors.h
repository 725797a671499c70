// What a call throws, as text.
#pragma once

#include <string>

#include "sullae/error.h"

namespace sullae::testing {

/// The message of the error, of this kind, that `call` throws.
template <class Kind = Error, class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Kind& error) {
    return error.what();
  }
  return "nothing was thrown";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace sullae::testing
