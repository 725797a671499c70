// Bytes in JSON: {"b64": "…"}, as TensorFlow Serving writes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sullae::serve {

/// RFC 4648, with padding.
std::string encode_base64(std::string_view bytes);
/// With or without padding; empty for what is no base64.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace sullae::serve
