// Texts that go on.
#include "train/generation.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <map>

#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace train;
using data::Pieces;

constexpr std::int64_t kA = Pieces::kFirstPiece;
constexpr std::int64_t kB = kA + 1;

// Two words are pieces, and all else is bytes.
Language letters(double context = 4) {
  ModelDescription description;
  description.words = {
      "\xe2\x96\x81"
      "a",
      "\xe2\x96\x81"
      "b"};
  description.numbers["context"] = context;
  description.numbers["words"] = static_cast<double>(kB + 1);
  return Language(description);
}
// Scores of which that of each of `pieces` is as given, and the others' impossible.
torch::Tensor scores(const std::map<std::int64_t, double>& pieces) {
  auto all = torch::full({kB + 1}, -1e9);
  for (const auto& [piece, score] : pieces) all[piece] = score;
  return all;
}

TEST(Continuations, EndWithTheTextOrWhenTheyAreLongEnough) {
  Continuation text(letters(), "b", {.max_tokens = 3});
  EXPECT_EQ(text.unseen().pieces, (std::vector<std::int64_t>{kB}));
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(text.ended());
    text.take(scores({{kA, 0}}));
  }
  EXPECT_EQ(text.text(), " a a a");
  EXPECT_EQ(text.finish_reason(), "length");
  EXPECT_EQ(text.unseen().pieces, (std::vector<std::int64_t>{kB, kA, kA, kA}));

  Continuation other(letters(), "", {});
  EXPECT_EQ(other.unseen().pieces, (std::vector<std::int64_t>{Pieces::kEnd}));
  other.take(scores({{kB, 0}}));
  other.take(scores({{Pieces::kEnd, 0}}));
  EXPECT_EQ(other.text(), "b");
  EXPECT_EQ(other.finish_reason(), "stop");
  EXPECT_EQ(other.count(), 1);
}

// As much of a text as the model sees, and half of that when it becomes longer.
TEST(Continuations, ForgetTheirBeginning) {
  for (const int context : {1, 2, 5}) {
    Continuation text(letters(context), "a a a a a a a", {.max_tokens = 20});
    std::size_t seen = static_cast<std::size_t>(context);
    while (!text.ended()) {
      EXPECT_EQ(text.unseen().pieces, std::vector<std::int64_t>(seen, kA));
      text.take(scores({{kA, 0}}));
      seen = seen < static_cast<std::size_t>(context)
                 ? seen + 1
                 : static_cast<std::size_t>(std::max(context / 2, 1));
    }
  }
}

TEST(Continuations, TakeTheLikeliestOfThoseThatAreLeft) {
  // Padding and what stands for texts without words is never written, however likely.
  const auto likely = scores(
      {{Pieces::kPadding, 9}, {Pieces::kUnknown, 9}, {Pieces::kBegin, 9}, {kA, 1}, {kB, 1.5}});
  for (const GenerationOptions& options :
       {GenerationOptions{.temperature = 0}, GenerationOptions{.top_k = 1},
        GenerationOptions{.top_p = 0.1}}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      auto seeded = options;
      seeded.seed = seed;
      Continuation text(letters(), "", seeded);
      text.take(likely);
      EXPECT_EQ(text.text(), "b");
    }
  }
}

TEST(Continuations, AreDrawnAsTheScoresSay) {
  const auto part_of_a = [](const GenerationOptions& options) {
    int found = 0;
    for (std::uint64_t seed = 0; seed < 2000; ++seed) {
      auto seeded = options;
      seeded.seed = seed;
      Continuation text(letters(), "", seeded);
      text.take(scores({{kA, std::log(3.0)}, {kB, 0}, {Pieces::kFirstByte, -3}}));
      if (text.text() == "a") ++found;
    }
    return found / 2000.0;
  };
  EXPECT_NEAR(part_of_a({.temperature = 1, .top_k = 2}), 0.75, 0.04);
  EXPECT_NEAR(part_of_a({.temperature = 1, .top_p = 0.98}), 0.75, 0.04);
  EXPECT_NEAR(part_of_a({.temperature = 1}), 3 / (4 + std::exp(-3.0)), 0.04);
  EXPECT_NEAR(part_of_a({.temperature = 0.5, .top_k = 2}), 0.9, 0.03);
}

TEST(Continuations, OfOneSeedAreTheSame) {
  const auto written = [](std::uint64_t seed) {
    Continuation text(letters(), "a", {.max_tokens = 40, .temperature = 1, .seed = seed});
    while (!text.ended()) text.take(scores({{kA, 0}, {kB, 0}}));
    return text.text();
  };
  EXPECT_EQ(written(7), written(7));
  EXPECT_NE(written(7), written(8));
}

TEST(Continuations, HoldHalfACharacterBack) {
  const std::string character = "\xec\x98\x81";
  Continuation text(letters(), "", {.max_tokens = 5});
  const auto take = [&](unsigned char byte) {
    text.take(scores({{Pieces::kFirstByte + byte, 0}}));
  };
  take(0xec);
  EXPECT_EQ(text.text(), "");
  take(0x98);
  EXPECT_EQ(text.text(), "");
  take(0x81);
  EXPECT_EQ(text.text(), character);
  take('x');
  EXPECT_EQ(text.text(), character + "x");
  take(0xec);  // the last one: what is missing stays missing
  EXPECT_EQ(text.text(), character + "x\xef\xbf\xbd");
}

TEST(Continuations, KeepLines) {
  Continuation text(letters(20), "a b\nb", {.max_tokens = 3});
  EXPECT_EQ(text.unseen().pieces,
            (std::vector<std::int64_t>{kA, kB, Pieces::kFirstByte + '\n', kB}));
  text.take(scores({{Pieces::kFirstByte + '\n', 0}}));
  text.take(scores({{kA, 0}}));
  text.take(scores({{kB, 0}}));
  EXPECT_EQ(text.text(), "\na b");
}

TEST(Continuations, OptionsThatCannotBeAreNamed) {
  const auto error = [](const GenerationOptions& options) {
    return error_of([&] {
      check_generation(options, [](const char* name) { return std::string("--") + name; });
    });
  };
  EXPECT_EQ(error({}), "nothing was thrown");
  EXPECT_EQ(error({.max_tokens = 0}), "--max_tokens 0: expected 1 to 8192");
  EXPECT_EQ(error({.temperature = -1}),
            "--temperature -1: expected 0 (the likeliest piece) to 100");
  EXPECT_EQ(error({.top_k = -2}), "--top_k -2: expected 0 (all pieces) or more");
  EXPECT_EQ(error({.top_p = 0}), "--top_p 0: expected above 0, up to 1");
}

TEST(Continuations, ModelsThatSayNothingAreRefused) {
  Continuation text(letters(), "a", {.top_k = 1});
  EXPECT_EQ(error_of([&] {
              text.take(scores({{kA, std::nan("")}}));
            }),
            "the model's scores are not numbers (NaN): its training has diverged");
  ModelDescription description;
  description.numbers = {{"context", 4}, {"words", 2}};
  EXPECT_EQ(error_of([&] { const Language language(description); }),
            "a model that scores 2 pieces has a vocabulary of 260");
}

}  // namespace
}  // namespace sullae::testing
