// What an exception says to people.
#pragma once

#include <exception>
#include <string>

namespace sullae {

/// libtorch's exceptions go on with the addresses of their calls, which nobody wants to read.
inline std::string message_of(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find("\nException raised from "));
}

}  // namespace sullae
