#include "storage/s3/signature.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/percent.h"
#include "storage/spool.h"

namespace sullae::storage {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string hmac(std::string_view key, std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &size);
  return {reinterpret_cast<char*>(digest), size};
}

class Sha256 {
 public:
  Sha256() : context_(::EVP_MD_CTX_new(), &::EVP_MD_CTX_free) {
    ::EVP_DigestInit_ex(context_.get(), ::EVP_sha256(), nullptr);
  }
  void add(std::string_view bytes) {
    ::EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
  }
  std::string finish() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    ::EVP_DigestFinal_ex(context_.get(), digest, &size);
    return hex({reinterpret_cast<char*>(digest), size});
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&::EVP_MD_CTX_free)> context_;
};

}  // namespace

std::string query_of(const std::map<std::string, std::string>& query) {
  std::string text;
  for (const auto& [name, value] : query)
    text += fmt::format("{}{}={}", text.empty() ? "" : "&", percent_encode(name),
                        percent_encode(value));
  return text;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.finish();
}

std::string sha256_hex(int fd, std::uint64_t offset, std::uint64_t bytes) {
  Sha256 hash;
  std::string buffer(std::size_t{1} << 20, '\0');
  for (const std::uint64_t end = offset + bytes; offset < end;) {
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), end - offset));
    read_spool(fd, offset, buffer.data(), count);
    hash.add({buffer.data(), count});
    offset += count;
  }
  return hash.finish();
}

std::string amazon_time() {
  return fmt::format(
      "{:%Y%m%dT%H%M%SZ}",
      fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

std::vector<std::string> sign(const SignedRequest& request, const Credentials& credentials,
                              const std::string& region, const std::string& time) {
  auto headers = request.headers;
  headers["host"] = request.host;
  headers["x-amz-content-sha256"] = request.payload_hash;
  headers["x-amz-date"] = time;
  if (!credentials.session_token.empty())
    headers["x-amz-security-token"] = credentials.session_token;

  std::string canonical_headers;
  std::string names;
  for (const auto& [name, value] : headers) {
    canonical_headers += fmt::format("{}:{}\n", name, value);
    names += fmt::format("{}{}", names.empty() ? "" : ";", name);
  }
  const std::string canonical =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, request.path, query_of(request.query),
                  canonical_headers, names, request.payload_hash);
  const std::string date = time.substr(0, 8);
  const std::string scope = fmt::format("{}/{}/s3/aws4_request", date, region);
  const std::string to_sign =
      fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", time, scope, sha256_hex(canonical));
  const std::string key =
      hmac(hmac(hmac(hmac("AWS4" + credentials.secret_key, date), region), "s3"), "aws4_request");

  std::vector<std::string> lines;
  for (const auto& [name, value] : headers) lines.push_back(fmt::format("{}: {}", name, value));
  lines.push_back(
      fmt::format("Authorization: AWS4-HMAC-SHA256 Credential={}/{},SignedHeaders={},Signature={}",
                  credentials.access_key, scope, names, hex(hmac(key, to_sign))));
  return lines;
}

}  // namespace sullae::storage
