// Where a request ends, and what it is for. Where that is in doubt, this server and another one
// before it might disagree, and one's body be the other's next request (RFC 9112, section 11.2):
// such requests are refused.
#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace sullae::http {

/// Of a header as Beast has read it: why the request is refused, or nothing. Checked are
/// Transfer-Encoding, Content-Length and Host (RFC 9112, sections 3.2, 6.1 and 6.3).
std::optional<std::string> doubt_about(
    const boost::beast::http::header<true, boost::beast::http::fields>& header);

/// The status and the words with which a client is told of a request that cannot be read.
std::pair<int, std::string> explain(const boost::system::error_code& error,
                                    std::size_t max_body_bytes);

struct Target {
  std::string path;
  std::string query;
  /// Of an absolute target ("http://host/path"), which goes before the header Host (RFC 9112,
  /// section 3.2.2).
  std::string host = {};
};

/// Nothing for what is no target of this server's.
std::optional<Target> parse_target(std::string_view text);

}  // namespace sullae::http
