// HTTP requests to stores, by libcurl.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sullae/error.h"

namespace sullae::storage {

/// No answer, or not all of one: a connection that was refused, broke, or went silent. What failed
/// may be tried again.
class ConnectionError : public Error {
 public:
  using Error::Error;
};

/// Of an open file, so many bytes from `offset`; nothing without one.
struct Upload {
  int fd = -1;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<std::string> headers = {};  ///< "Name: value"
  Upload upload = {};
  /// Goes where the answer points (of GET and HEAD).
  bool follow = false;
  /// Takes the body of a good answer (2xx) as it comes; without one it is in the answer.
  std::function<void(std::string_view)> sink = {};
  /// The only good answer whose body the sink takes, and another one is an Error; 0 for any.
  long sink_status = 0;
  long connect_seconds = 10;
};

struct HttpResponse {
  long status = 0;
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;
  bool ok() const { return status >= 200 && status < 300; }
};

/// Connections, which stay open between requests. Any thread.
class Http {
 public:
  Http();
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;
  /// Throws ConnectionError.
  HttpResponse send(const HttpRequest& request);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// How long what failed is tried again: SULLAE_STORAGE_TIMEOUT, in seconds (120).
std::chrono::milliseconds storage_timeout();

/// 429, 500, 502, 503, 504: what may be otherwise in a moment.
bool is_retryable(long status);

struct Retries {
  /// When it changes, the time begins anew.
  std::function<std::uint64_t()> progress = [] {
    return std::uint64_t{0};
  };
  /// What an answer says, for messages.
  std::function<std::string(const HttpResponse&)> problem;
  /// Whether it is worth another attempt.
  std::function<bool(const HttpResponse&)> retryable = [](const HttpResponse& answer) {
    return is_retryable(answer.status);
  };
};

/// Sends until there is an answer that is none of "not now", with longer and longer pauses, until
/// storage_timeout() has passed without one; then throws Error: `name` (what is read or written),
/// and the last reason. `make` is asked for each attempt, so that it may go on where the last one
/// ended.
HttpResponse send_with_retries(Http& http, const std::string& name,
                               const std::function<HttpRequest()>& make, const Retries& retries);

}  // namespace sullae::storage
