#include "serve/protocol/base64.h"

#include <gtest/gtest.h>

namespace sullae::testing {
namespace {

using namespace serve;

TEST(Base64, GoesBothWays) {
  for (const std::string bytes : {"", "a", "ab", "abc", "\xff\xd8\xff"})
    EXPECT_EQ(decode_base64(encode_base64(bytes)), bytes);
  EXPECT_EQ(encode_base64("ab"), "YWI=");
  EXPECT_EQ(decode_base64("YWI"), "ab");
  EXPECT_EQ(decode_base64("YQ"), "a");
  EXPECT_EQ(decode_base64("YWJjYQ"), "abca");
  for (const char* wrong : {"*", "YW*=", "YWI=YWI=", "Z", "Z29vZ"})
    EXPECT_EQ(decode_base64(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace sullae::testing
