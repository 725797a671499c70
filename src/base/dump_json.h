// JSON as a text, of values that may hold what others wrote.
#pragma once

#include <string>

namespace sullae {

/// Bytes that are no UTF-8 become U+FFFD: a file's name or a program's output is no reason to fail.
/// `Json` is one of nlohmann's; in one line, or in lines that are set in by `indent`.
template <class Json>
std::string dump_json(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sullae
