#include "storage/s3/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/number.h"
#include "base/percent.h"
#include "storage/s3/xml.h"

namespace sullae::storage {
namespace {

using boost::property_tree::ptree;

constexpr long kPartial = 206;

struct S3Error {
  std::string code;
  std::string message;
  std::string region;  // that the bucket is in, where another one was asked
};

S3Error error_in(const HttpResponse& answer) {
  try {
    const ptree tree = parse_xml(answer.body);
    return {.code = tree.get("Error.Code", ""),
            .message = tree.get("Error.Message", ""),
            .region = tree.get("Error.Region", "")};
  } catch (const boost::property_tree::ptree_error&) {
    return {};  // of HEAD there is none, and proxies say what they like
  }
}

}  // namespace

std::pair<std::string, std::string> refusal_in(const HttpResponse& answer) {
  const S3Error error = error_in(answer);
  std::string said = fmt::format("the answer is {}", answer.status);
  if (!error.code.empty()) said += fmt::format(", {}: {}", error.code, error.message);
  return {error.code, said};
}

S3Client::S3Client(const Location& location)
    : bucket_(location.authority),
      environment_(process_environment()),
      settings_(read_s3_settings(environment_)) {
  place_ = place_in(settings_.region);
}

S3Client::Place S3Client::place_in(const std::string& region) const {
  // Amazon's certificate is for names without a dot before its own.
  const bool in_path = !settings_.endpoint.empty() || bucket_.find('.') != std::string::npos;
  const std::string endpoint = settings_.endpoint.empty()
                                   ? fmt::format("https://s3.{}.amazonaws.com{}", region,
                                                 region.starts_with("cn-") ? ".cn" : "")
                                   : settings_.endpoint;
  const auto host = endpoint.find("://") + 3;
  return {.region = region,
          .base = endpoint.substr(0, host),
          .host = (in_path ? "" : bucket_ + '.') + endpoint.substr(host),
          .prefix = in_path ? '/' + bucket_ : ""};
}

std::string S3Client::name_of(const std::string& path) const {
  return fmt::format("s3://{}/{}", bucket_, path);
}

std::string S3Client::header(const HttpResponse& answer, const char* name,
                             const std::string& path) const {
  const auto found = answer.headers.find(name);
  if (found == answer.headers.end())
    throw Error(fmt::format("{}: the answer has no {}", name_of(path), name));
  return found->second;
}

std::uint64_t S3Client::length(const HttpResponse& answer, const std::string& path) const {
  const auto text = header(answer, "content-length", path);
  const auto bytes = number_in<std::uint64_t>(text);
  if (!bytes)
    throw Error(fmt::format("{}: the answer's content-length is '{}'", name_of(path), text));
  return *bytes;
}

void S3Client::fail(const std::string& path, const HttpResponse& answer) {
  const auto [code, said] = refusal_in(answer);
  const std::string name = name_of(path);
  if (answer.status == 403 || answer.status == 401)
    throw AccessDenied(fmt::format("{}: {} (credentials of {})", name, said, credentials().source));
  throw Error(fmt::format("{}: {}", name, said));
}

Credentials S3Client::credentials() {
  const std::lock_guard lock(mutex_);
  if (!credentials_) credentials_ = find_credentials(environment_, http_);
  return *credentials_;
}

// Newer ones than `used`, if there are: another thread may have found them, or the places where
// they are.
bool S3Client::renew_credentials(const Credentials& used) {
  const auto is_used = [&] {
    return credentials_->access_key == used.access_key &&
           credentials_->session_token == used.session_token;
  };
  const std::lock_guard lock(mutex_);
  if (credentials_ && is_used())
    credentials_ = find_credentials(environment_, http_, credentials_->source);
  return credentials_ && !is_used();
}

S3Client::Place S3Client::place() {
  const std::lock_guard lock(mutex_);
  return place_;
}

// Whether an answer says that the bucket is in another region than was asked, whose name is
// remembered.
bool S3Client::is_elsewhere(const HttpResponse& answer, const std::string& asked) {
  if (answer.status != 301 && answer.status != 307 && answer.status != 400) return false;
  std::string region;
  if (const auto said = answer.headers.find("x-amz-bucket-region"); said != answer.headers.end())
    region = said->second;
  if (region.empty()) region = error_in(answer).region;
  // It becomes a part of the host that is asked next.
  const auto is_of_names = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-';
  };
  if (region.empty() || region == asked || !std::ranges::all_of(region, is_of_names)) return false;
  const std::lock_guard lock(mutex_);
  if (place_.region == asked) place_ = place_in(region);
  return true;
}

HttpResponse S3Client::send(const S3Call& call) {
  Credentials used;
  const std::string region = place().region;
  HttpResponse answer = send_once(call, used);
  if (is_elsewhere(answer, region)) answer = send_once(call, used);
  if (answer.status != 403 && answer.status != 400) return answer;
  const auto code = refusal_in(answer).first;
  // HEAD says nothing more than the number.
  if (code != "ExpiredToken" && code != "InvalidToken" && call.method != "HEAD") return answer;
  return renew_credentials(used) ? send_once(call, used) : answer;
}

HttpResponse S3Client::send_once(const S3Call& call, Credentials& used) {
  return send_with_retries(
      http_, name_of(call.path),
      [&] {
        const Place place = this->place();
        SignedRequest request{.method = call.method,
                              .host = place.host,
                              .path = place.prefix + '/' + percent_encode_path(call.path),
                              .query = call.query,
                              .headers = call.headers,
                              .payload_hash = call.payload_hash};
        if (call.range) request.headers["range"] = call.range();
        const std::string query = query_of(call.query);
        used = credentials();
        return HttpRequest{
            .method = call.method,
            .url = place.base + place.host + request.path + (query.empty() ? "" : "?" + query),
            .headers = sign(request, used, place.region, amazon_time()),
            .upload = call.upload,
            .sink = call.sink,
            .sink_status = call.range ? kPartial : 0};
      },
      {.progress = call.progress,
       .problem = [](const HttpResponse& said) { return refusal_in(said).second; },
       .retryable =
           [](const HttpResponse& said) {
             if (is_retryable(said.status)) return true;
             if (said.ok() && said.body.find("<Error>") == std::string::npos) return false;
             const auto code = refusal_in(said).first;
             return code == "RequestTimeout" || code == "InternalError" || code == "SlowDown";
           }});
}

}  // namespace sullae::storage
