#include "base/toml.h"

#include <gtest/gtest.h>

namespace sullae::testing {
namespace {

// With toml++ 3.3 as it is, undefined behaviour, which UndefinedBehaviorSanitizer shows.
TEST(Toml, AnyLetterMayStandAnywhere) {
  const auto table = toml::parse("a = \"\"\"x\\\né좋다\"\"\" # é\n'키' = 'ƾ'");
  EXPECT_EQ(table["a"].value_or(""), std::string("xé좋다"));
  EXPECT_EQ(table["키"].value_or(""), std::string("ƾ"));
  for (const char* text : {"é = 1", "a = ƾ", "a = [1, ͢]", "a = 4'''ƾ", "[の]"})
    EXPECT_THROW(toml::parse(text), toml::parse_error) << text;
}

}  // namespace
}  // namespace sullae::testing
