#include "http/query.h"

#include <gtest/gtest.h>

#include "support/errors.h"

namespace sullae::testing {
namespace {

using http::number_of;
using http::text_of;
using http::texts_of;
using Texts = std::vector<std::string>;

TEST(Query, TextsAreDecoded) {
  const std::string query = "run=a%2Fb&tag=x+y&run=%EC%86%90&empty=&flag&a%3Db=c&&";
  EXPECT_EQ(texts_of(query, "run"), (Texts{"a/b", "손"}));
  EXPECT_EQ(text_of(query, "tag"), "x y");
  EXPECT_EQ(text_of(query, "empty"), "");
  EXPECT_EQ(text_of(query, "a=b"), "c");
  for (const char* const none : {"flag", "ru", "un", "b", ""})
    EXPECT_FALSE(text_of(query, none)) << none;
  EXPECT_FALSE(text_of("", "run"));
}

TEST(Query, NumbersAreWhole) {
  EXPECT_EQ(number_of("a=3&b=44", "b", 7), 44);
  EXPECT_EQ(number_of("a=3", "b", 7), 7);
  EXPECT_EQ(number_of("ab=3", "b", 7), 7);
  for (const char* const wrong : {"b=", "b=-1", "b=1x", "b=99999999999999999999", "b=1.5"})
    EXPECT_EQ(error_of([&] { number_of(wrong, "b", 7); }), "b: expected a number") << wrong;
}

}  // namespace
}  // namespace sullae::testing
