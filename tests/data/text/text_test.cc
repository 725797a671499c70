// UTF-8, words and their numbers.
#include "sullae/data/text.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace sullae::testing {
namespace {

using namespace data;

TEST(Utf8, IsCheckedByTheBook) {
  EXPECT_EQ(find_invalid_utf8("한글 \xf0\x9f\x98\x80 é"), std::string_view::npos);
  for (const char* bad : {"\x80", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                          "\xf8\x88\x80\x80\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80"}) {
    EXPECT_EQ(find_invalid_utf8(bad), 0U) << bad;
    EXPECT_EQ(find_invalid_utf8(std::string("ab") + bad), 2U) << bad;
  }
}

TEST(Words, AreCutAtWhiteSpace) {
  EXPECT_EQ(split_words("  참  좋다\t! "), (std::vector<std::string_view>{"참", "좋다", "!"}));
  EXPECT_TRUE(split_words(" \t").empty());
}

TEST(Words, AreNormalisedForEnglish) {
  const std::string text = normalise_english("It's GOOD, really\\n: 참");
  EXPECT_EQ(split_words(text),
            (std::vector<std::string_view>{"it's", "good", ",", "really", "\\", "n", ":", "참"}));
}

TEST(VocabularyOf, NumbersWordsByFrequency) {
  const auto vocabulary = Vocabulary::build({{"b a c", 0}, {"a b a", 1}});
  EXPECT_EQ(vocabulary.size(), 5U);
  EXPECT_EQ(vocabulary.number_of("a"), 2);
  EXPECT_EQ(vocabulary.number_of("b"), 3);
  EXPECT_EQ(vocabulary.number_of("c"), 4);
  EXPECT_EQ(vocabulary.number_of("d"), Vocabulary::kUnknown);
  EXPECT_EQ(vocabulary.encode("c d a a", 3), (std::vector<std::int64_t>{4, 1, 2}));
  EXPECT_EQ(vocabulary.encode("", 3), std::vector<std::int64_t>{Vocabulary::kUnknown});
  EXPECT_EQ(Vocabulary::build({{"b a c", 0}, {"a b a", 1}}, 2).size(), 4U);
  // Which no checkpoint could hold.
  EXPECT_EQ(Vocabulary::build({{"a \xff \xfe \xec\x98 a\xff", 0}}).words(),
            std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace sullae::testing
