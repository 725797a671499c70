// AWS's published examples (docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html).
#include "storage/s3/signature.h"

#include <gtest/gtest.h>

#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace storage;

const Credentials kCredentials{.access_key = "AKIAIOSFODNN7EXAMPLE",
                               .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                               .session_token = {},
                               .source = {}};

std::string signature_of(SignedRequest request) {
  request.host = "examplebucket.s3.amazonaws.com";
  if (request.payload_hash.empty()) request.payload_hash = kEmptyHash;
  const auto headers = sign(request, kCredentials, "us-east-1", "20130524T000000Z");
  return headers.back().substr(headers.back().rfind('=') + 1);
}

TEST(Signature, IsAsPublished) {
  EXPECT_EQ(
      signature_of({.method = "GET", .path = "/test.txt", .headers = {{"range", "bytes=0-9"}}}),
      "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(signature_of({.method = "PUT",
                          .path = "/test%24file.text",
                          .headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                                      {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                          .payload_hash = sha256_hex("Welcome to Amazon S3.")}),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  EXPECT_EQ(signature_of({.method = "GET", .path = "/", .query = {{"lifecycle", ""}}}),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(
      signature_of({.method = "GET", .path = "/", .query = {{"max-keys", "2"}, {"prefix", "J"}}}),
      "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(Signature, HoldsTheTokenOfCredentialsThatExpire) {
  auto credentials = kCredentials;
  credentials.session_token = "token";
  const auto headers = sign({.method = "GET", .host = "h", .path = "/", .payload_hash = "x"},
                            credentials, "us-east-1", "20130524T000000Z");
  EXPECT_EQ(headers[headers.size() - 2], "x-amz-security-token: token");
  EXPECT_TRUE(contains(headers.back(),
                       "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token"));
}

}  // namespace
}  // namespace sullae::testing
