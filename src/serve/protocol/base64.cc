#include "serve/protocol/base64.h"

#include <boost/beast/core/detail/base64.hpp>

namespace sullae::serve {

namespace base64 = boost::beast::detail::base64;

std::string encode_base64(std::string_view bytes) {
  std::string text(base64::encoded_size(bytes.size()), '\0');
  text.resize(base64::encode(text.data(), bytes.data(), bytes.size()));
  return text;
}

std::optional<std::string> decode_base64(std::string_view text) {
  // decoded_size() counts whole groups of four alone, and decode() writes what an unpadded rest
  // holds.
  std::string bytes(base64::decoded_size(text.size() + 3), '\0');
  const auto [written, read] = base64::decode(bytes.data(), text.data(), text.size());
  // A letter alone is less than a byte.
  if (text.find_first_not_of('=', read) != std::string_view::npos || read % 4 == 1)
    return std::nullopt;
  bytes.resize(written);
  return bytes;
}

}  // namespace sullae::serve
