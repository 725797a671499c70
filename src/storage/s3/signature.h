// AWS Signature Version 4 (docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sullae::storage {

struct Credentials {
  std::string access_key;
  std::string secret_key;
  std::string session_token;  ///< of credentials that expire
  std::string source;         ///< where they are from, for messages
};

struct SignedRequest {
  std::string method;
  std::string host;
  std::string path;                          ///< encoded, with a slash in front
  std::map<std::string, std::string> query;  ///< not encoded
  /// Further ones that are signed, names in lower case.
  std::map<std::string, std::string> headers;
  std::string payload_hash;  ///< SHA-256 of the body, in hex
};

/// Of a body without bytes.
inline constexpr std::string_view kEmptyHash =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// "a=1&b=%2F", sorted.
std::string query_of(const std::map<std::string, std::string>& query);
std::string sha256_hex(std::string_view bytes);
/// Of a file's bytes from `offset`.
std::string sha256_hex(int fd, std::uint64_t offset, std::uint64_t bytes);

/// The headers of the request, all of which are to be sent, with Authorization among them. `time`
/// is "20130524T000000Z".
std::vector<std::string> sign(const SignedRequest& request, const Credentials& credentials,
                              const std::string& region, const std::string& time);
/// Now.
std::string amazon_time();

}  // namespace sullae::storage
