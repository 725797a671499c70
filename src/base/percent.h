// Names in URLs and in folders of partitions (RFC 3986, 2.1).
#pragma once

#include <string>
#include <string_view>

namespace sullae {

/// "%2F" for what is no letter, digit, or one of "-._~".
std::string percent_encode(std::string_view text);
/// The same of a path, whose "/" stay.
std::string percent_encode_path(std::string_view path);
/// Back; a "%" without two digits behind it stays as it is.
std::string percent_decode(std::string_view text);

}  // namespace sullae
