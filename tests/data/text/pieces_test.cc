// Pieces of words.
#include "sullae/data/pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "sullae/data/text.h"
#include "support/errors.h"

namespace sullae::data {
namespace {

using sullae::testing::error_of;

std::vector<std::string_view> texts() {
  std::vector<std::string_view> all;
  for (int i = 0; i < 60; ++i) {
    all.emplace_back("영화가 정말 재미있어요 영화");
    all.emplace_back("영화는 재미없었다  다시는\t보지 않을 영화");
    all.emplace_back("the dancers hold hands and the dancers turn");
  }
  all.emplace_back("once");
  return all;
}

TEST(Pieces, AreWhatOccursMostOften) {
  const auto pieces = Pieces::learn(texts(), Pieces::kFirstPiece + 120);
  EXPECT_LE(pieces.size(), static_cast<std::size_t>(Pieces::kFirstPiece) + 120);
  const auto words = [&](std::string_view text) {
    return pieces.encode(text, 100).size();
  };
  EXPECT_EQ(words("영화"), 1U);
  EXPECT_EQ(words("the dancers"), 2U);
  EXPECT_GT(words("once"), 1U);  // which pair of it would be joined first?
  EXPECT_EQ(pieces.list(), Pieces::learn(texts(), Pieces::kFirstPiece + 120).list());
  EXPECT_EQ(Pieces::of_list(pieces.list()).encode("영화가 좋다", 100),
            pieces.encode("영화가 좋다", 100));
}

TEST(Pieces, ComeBackAsTexts) {
  const auto pieces = Pieces::learn(texts(), Pieces::kFirstPiece + 60);
  for (const std::string text :
       {"영화가 재미없었다", "재미있는 댄서", "the hands", "Ωmega 🙂 \xff\xc3 x", "", "한"}) {
    const auto numbers = pieces.encode(text, 1000);
    EXPECT_EQ(pieces.decode(numbers), text);
    for (const auto number : numbers) EXPECT_GT(number, Pieces::kEnd);
  }
  EXPECT_EQ(pieces.decode(pieces.encode(" a\n\n b ", 100)), "a b");
  EXPECT_EQ(pieces.encode("영화가 재미없었다", 2).size(), 2U);
  EXPECT_TRUE(pieces.encode(" ", 10).empty());
  EXPECT_EQ(pieces.decode(std::vector<std::int64_t>{Pieces::kBegin, Pieces::kPadding}), "");
}

TEST(Pieces, KeepTheLinesOfATextThatHasSome) {
  const auto pieces = Pieces::learn(texts(), Pieces::kFirstPiece + 60);
  for (const char* text : {"", "\n", "영화가 좋다\n\n정말 좋다", "영화가\n좋다\n"})
    EXPECT_EQ(pieces.decode(pieces.encode_lines(text)), text);
  EXPECT_EQ(pieces.encode_lines("영화가 좋다"), pieces.encode("영화가 좋다", 100));
}

// Texts without spaces are words of any length, and so are attacks.
TEST(Pieces, TakeLongWordsInParts) {
  std::string word;
  for (int i = 0; i < 200000; ++i) word += "영화";
  const std::vector<std::string_view> texts{word, word};
  const auto pieces = Pieces::learn(texts, Pieces::kFirstPiece + 20);
  const auto numbers = pieces.encode(word, 1U << 20U);
  EXPECT_LT(numbers.size() * 4, 400000U);
  EXPECT_EQ(pieces.decode(numbers), word);
  EXPECT_EQ(pieces.encode(word, 5).size(), 5U);
}

// Halves of characters of two (CESU-8), and bytes in longer forms than they need.
TEST(Pieces, HaveNothingThatIsNoUtf8) {
  const std::string text = "\xed\xa0\xbd\xed\xb8\x80 \xe0\x80\x80 \xf4\x90\x80\x80 a";
  const std::vector<std::string_view> texts(9, text);
  const auto pieces = Pieces::learn(texts, Pieces::kFirstPiece + 50);
  for (const auto& piece : pieces.list())
    EXPECT_TRUE(piece.find_first_of("\xed\xe0\xf4") == std::string::npos) << piece;
  EXPECT_EQ(pieces.decode(pieces.encode(text, 100)), text);
}

// By hand: "ab" occurs more often than "bc", and so "abc" is "ab" and "c".
TEST(Pieces, AreJoinedInTheOrderInWhichTheyWereLearnt) {
  const auto pieces = Pieces::of_list({"\xe2\x96\x81", "a", "b", "c", "ab", "bc", "cab"});
  const auto list_of = [&](std::string_view text) {
    std::vector<std::int64_t> places;
    for (const auto number : pieces.encode(text, 100))
      places.push_back(number - Pieces::kFirstPiece);
    return places;
  };
  EXPECT_EQ(list_of("abc"), (std::vector<std::int64_t>{0, 4, 3}));
  EXPECT_EQ(list_of("bc"), (std::vector<std::int64_t>{0, 5}));
  EXPECT_EQ(list_of("cab"), (std::vector<std::int64_t>{0, 6}));
  EXPECT_EQ(list_of("abab"), (std::vector<std::int64_t>{0, 4, 4}));
}

using Words = std::map<std::vector<std::string>, int>;  // in pieces, with how often they occur

// The pair that occurs most often, at least twice; of equals the one that was learnt first.
std::optional<std::pair<std::string, std::string>> best_pair(const Words& words,
                                                             const std::vector<std::string>& list) {
  std::map<std::pair<std::string, std::string>, int> counts;
  for (const auto& [word, count] : words) {
    for (std::size_t i = 0; i + 1 < word.size(); ++i) counts[{word[i], word[i + 1]}] += count;
  }
  const auto place = [&](const std::string& piece) {
    return std::ranges::find(list, piece);
  };
  std::optional<std::pair<std::string, std::string>> best;
  for (const auto& [pair, count] : counts) {
    if (count < 2) continue;
    const auto key = [&](const auto& one) {
      return std::tuple(-counts[one], place(one.first), place(one.second));
    };
    if (!best || key(pair) < key(*best)) best = pair;
  }
  return best;
}

// What is learnt is what is found where everything is counted anew at each step.
TEST(Pieces, AreThoseOfASlowSearch) {
  std::vector<std::string> texts;
  Words words;
  std::map<std::string, int> letters;
  for (unsigned i = 0, state = 1; i < 300; ++i) {
    std::string text;
    std::vector<std::string> word{"\xe2\x96\x81"};
    for (unsigned length = 1 + i % 6; length > 0; --length) {
      state = state * 1664525U + 1013904223U;
      text += static_cast<char>('a' + (state >> 28U) % 4);
      word.emplace_back(1, text.back());
    }
    texts.push_back(text);
    ++words[word];
    for (const auto& letter : word) ++letters[letter];
  }
  std::vector<std::pair<int, std::string>> by_count;
  for (const auto& [letter, count] : letters) by_count.emplace_back(-count, letter);
  std::ranges::sort(by_count);
  std::vector<std::string> expected;
  for (const auto& [count, letter] : by_count) expected.push_back(letter);
  while (expected.size() < 60) {
    const auto pair = best_pair(words, expected);
    ASSERT_TRUE(pair);
    const std::string joined = pair->first + pair->second;
    if (std::ranges::find(expected, joined) == expected.end()) expected.push_back(joined);
    Words after;
    for (const auto& [before, count] : words) {
      auto word = before;
      for (std::size_t i = 0; i + 1 < word.size(); ++i) {
        if (word[i] != pair->first || word[i + 1] != pair->second) continue;
        word[i] = joined;
        word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
      after[word] += count;
    }
    words = std::move(after);
  }
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  EXPECT_EQ(Pieces::learn(views, Pieces::kFirstPiece + 60).list(), expected);
}

TEST(Pieces, AreWhatTextsBecome) {
  const auto pieces = Pieces::learn(texts(), Pieces::kFirstPiece + 90);
  const TextEncoder encoder(pieces, {.max_words = 3});
  EXPECT_EQ(encoder.size(), static_cast<std::int64_t>(pieces.size()));
  EXPECT_EQ(encoder.encode("the dancers turn the dancers turn").size(), 3U);
  EXPECT_EQ(encoder.encode(""), std::vector<std::int64_t>{Pieces::kUnknown});
  EXPECT_EQ(encoder.summary(), std::to_string(pieces.size()) + " pieces");
}

TEST(Pieces, SayWhatIsWrong) {
  EXPECT_EQ(error_of([] { Pieces::learn(texts(), 260); }),
            "260 pieces: expected more than 260, which are bytes and special ones");
  EXPECT_EQ(error_of([] { Pieces::of_list({"a", "b", "a"}); }), "pieces: 'a' is there twice");
  EXPECT_EQ(error_of([] { Pieces::of_list({""}); }), "pieces: '' is empty");
  const auto pieces = Pieces::of_list({"a"});
  EXPECT_EQ(error_of([&] { pieces.decode(std::vector<std::int64_t>{261}); }),
            "piece 261: expected 0 to 260");
}

}  // namespace
}  // namespace sullae::data
