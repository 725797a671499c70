// Signed requests to a bucket.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/environment.h"
#include "storage/http.h"
#include "storage/s3/settings.h"
#include "storage/s3/signature.h"
#include "storage/store.h"

namespace sullae::storage {

/// What an answer says of an error: its code alone, and "the answer is 403, AccessDenied: …".
std::pair<std::string, std::string> refusal_in(const HttpResponse& answer);

struct S3Call {
  std::string method = "GET";
  std::string path;  ///< within the bucket
  std::map<std::string, std::string> query = {};
  std::map<std::string, std::string> headers = {};
  /// What is sent, and its hash.
  Upload upload = {};
  std::string payload_hash = std::string(kEmptyHash);
  std::function<std::string()> range = {};
  std::function<void(std::string_view)> sink = {};
  std::function<std::uint64_t()> progress = [] {
    return std::uint64_t{0};
  };
};

/// Any thread. All throw Error.
class S3Client {
 public:
  explicit S3Client(const Location& location);

  /// With newer credentials where those that it has have expired, in the region that the bucket is
  /// in where that is another one, and again where the answer is "not now".
  HttpResponse send(const S3Call& call);
  /// Of an answer that has to be a good one.
  [[noreturn]] void fail(const std::string& path, const HttpResponse& answer);
  /// "s3://bucket/path", for messages.
  std::string name_of(const std::string& path) const;
  std::string header(const HttpResponse& answer, const char* name, const std::string& path) const;
  /// Its content-length.
  std::uint64_t length(const HttpResponse& answer, const std::string& path) const;

 private:
  /// Where the bucket is.
  struct Place {
    std::string region;
    std::string base;  ///< of addresses: "https://"
    std::string host;
    std::string prefix;  ///< of paths
  };
  Place place_in(const std::string& region) const;
  Place place();
  bool is_elsewhere(const HttpResponse& answer, const std::string& asked);
  Credentials credentials();
  bool renew_credentials(const Credentials& used);
  HttpResponse send_once(const S3Call& call, Credentials& used);

  std::string bucket_;
  Environment environment_;
  S3Settings settings_;
  Http http_;
  std::mutex mutex_;  // guards:
  Place place_;
  std::optional<Credentials> credentials_;
};

}  // namespace sullae::storage
