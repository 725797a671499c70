#include "runs/history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "runs/line.h"
#include "support/errors.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using runs::History;
using runs::Line;
using Steps = std::vector<std::int64_t>;

class HistoryTest : public ::testing::Test {
 protected:
  void append(const std::string& text) { std::ofstream(file_, std::ios::app) << text; }
  static std::string line(int step, double loss) {
    return "{\"step\":" + std::to_string(step) + ",\"time\":" + std::to_string(100 + step) +
           ",\"loss\":" + std::to_string(loss) + "}\n";
  }

  TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_.path() / "metrics.jsonl";
  History history_{file_};
};

TEST_F(HistoryTest, GrowsWithItsFile) {
  history_.update();
  EXPECT_TRUE(history_.steps().empty()) << "there is none yet";
  append(line(1, 0.5));
  history_.update();
  EXPECT_EQ(history_.steps(), Steps{1});
  append(line(2, 0.25) + R"({"step":3,"lo)");
  history_.update();
  EXPECT_EQ(history_.steps(), (Steps{1, 2}));
  append("ss\":0.125}\n");
  history_.update();
  EXPECT_EQ(history_.steps(), (Steps{1, 2, 3}));
  EXPECT_EQ(history_.find("loss")->values, (std::vector<double>{0.5, 0.25, 0.125}));
  EXPECT_EQ(history_.find("none"), nullptr);
  std::filesystem::remove(file_);
  append(line(7, 1));
  history_.update();
  EXPECT_EQ(history_.steps(), Steps{7}) << "another file";
}

TEST_F(HistoryTest, IsReadPieceByPiece) {
  // Longer than a piece, with a line across each border, and one that is longer than a piece by
  // itself.
  std::string text;
  for (int step = 1; step <= 60'000; ++step) text += line(step, step);
  text += R"({"step":60000,"note":")" + std::string(3 << 20, 'x') + "\"}\n";
  ASSERT_GT(text.size(), std::size_t{5} << 20);
  append(text);
  history_.update();
  ASSERT_EQ(history_.steps().size(), 60'000U);
  for (int i = 0; i < 60'000; ++i)
    ASSERT_EQ(history_.find("loss")->values[static_cast<std::size_t>(i)], i + 1);
  EXPECT_EQ(history_.notes().at(0).text.size(), std::size_t{3} << 20);
  EXPECT_EQ(history_.damaged(), 0U);
  EXPECT_GT(history_.bytes(), 60'000U * 28);
}

TEST_F(HistoryTest, WhereARunGoesOnLaterStepsAreForgotten) {
  append(line(1, 1) + line(2, 2) + "{\"step\":2,\"test\":0.8}\n" + line(3, 3) +
         "{\"step\":3,\"test\":0.7,\"only\":1}\n");
  append("{\"step\":3,\"note\":\"resuming\"}\n{\"step\":2,\"goes_on\":true}\n" + line(3, 30) +
         line(4, 40));
  history_.update();
  EXPECT_EQ(history_.steps(), (Steps{1, 2, 2, 3, 4}));
  EXPECT_EQ(history_.find("loss")->values, (std::vector<double>{1, 2, 30, 40}));
  EXPECT_EQ(history_.find("test")->values, (std::vector<double>{0.8}));
  EXPECT_EQ(history_.find("only"), nullptr) << "it has no value any more";
  EXPECT_EQ(history_.notes().size(), 1U);
  EXPECT_EQ(history_.damaged(), 0U);
  append("{\"step\":0,\"goes_on\":true}\n");
  history_.update();
  EXPECT_TRUE(history_.steps().empty());
}

TEST_F(HistoryTest, StepsDoNotGoBackByThemselves) {
  append(line(1, 1) + line(5, 5) + line(2, 2) + line(6, 6));
  history_.update();
  EXPECT_EQ(history_.steps(), (Steps{1, 5, 6}));
  EXPECT_EQ(history_.damaged(), 1U);
}

TEST_F(HistoryTest, AFileThatTookAnothersPlaceIsReadAnew) {
  append(line(1, 1) + line(2, 2));
  history_.update();
  // The same file for the system, with other lines in it, and longer.
  std::filesystem::resize_file(file_, 0);
  append(line(1, 7) + line(2, 8) + line(3, 9));
  history_.update();
  EXPECT_EQ(history_.find("loss")->values, (std::vector<double>{7, 8, 9}));
  EXPECT_EQ(history_.damaged(), 0U);
}

TEST_F(HistoryTest, WhatIsTooLongIsLeftOut) {
  append(line(1, 1) + std::string(9 << 20, 'x') + "\n" + line(2, 2));
  history_.update();
  EXPECT_EQ(history_.steps(), (Steps{1, 2}));
  EXPECT_EQ(history_.damaged(), 1U);
  append(std::string(5 << 20, 'y'));
  history_.update();
  append(std::string(5 << 20, 'y'));
  history_.update();
  append("\n" + line(3, 3));
  history_.update();
  EXPECT_EQ(history_.steps(), (Steps{1, 2, 3}));
  EXPECT_EQ(history_.damaged(), 2U);
}

TEST_F(HistoryTest, ANumberInATagsNameMakesNoEndlessManyCurves) {
  std::string text;
  for (int step = 1; step <= 5000; ++step)
    text += "{\"step\":" + std::to_string(step) + ",\"loss/" + std::to_string(step) + "\":1}\n";
  append(text);
  history_.update();
  EXPECT_EQ(history_.columns().size(), 2000U);
  EXPECT_EQ(history_.damaged(), 3000U);
}

TEST_F(HistoryTest, AFolderOrAPipeIsNoFile) {
  std::filesystem::create_directory(file_);
  EXPECT_TRUE(contains(error_of([&] { history_.update(); }), "is no file"));
}

TEST_F(HistoryTest, WhatIsNoLineIsCounted) {
  append(
      "\nnonsense\n{}\n[1]\n{\"step\":null}\n{\"loss\":1}\n{\"step\":1,\"loss\":{\"a\":1}}\n{"
      "\"step\":-1,\"loss\":1}\n" +
      line(1, 1));
  history_.update();
  EXPECT_EQ(history_.steps(), Steps{1});
  EXPECT_EQ(history_.damaged(), 8U);
}

TEST_F(HistoryTest, TheEndAloneIsReadOnItsOwn) {
  for (int step = 1; step <= 100; ++step) append(line(step, step));
  append("{\"step\":101,");
  const auto end = History::end_of(file_, 200);
  EXPECT_EQ(end.steps().back(), 100);
  EXPECT_LT(end.steps().size(), 10U);
  EXPECT_EQ(end.damaged(), 0U);
  EXPECT_EQ(History::end_of(file_, 1 << 20).steps().size(), 100U);
  EXPECT_TRUE(History::end_of(file_, 5).steps().empty());
  EXPECT_TRUE(History::end_of(directory_.path() / "none", 200).steps().empty());
}

bool parses(const std::string& text) {
  return Line().parse(text.data(), text.data() + text.size());
}

TEST(Lines, PlainOnesAndOthersSayTheSame) {
  // The second says what the first does in another way, which the quick reader does not know.
  for (const auto& [plain, other] : std::vector<std::pair<std::string, std::string>>{
           {R"({"step":5,"a":0.5})", R"({"step":5,"\u0061":0.5})"},
           {R"({ "step": 5, "a" : -1.5e-3 })", "{\t\"step\": 5,\n \"a\": -0.0015 }"},
           {R"({"a":1,"step":0,"time":17.25})", R"({"\u0061":1.0,"step":0,"time":17.25})"},
           {R"({"step":9,"a":"nan","note":"b"})", R"({"step":9,"a":"\u006ean","note":"b"})"}}) {
    Line one;
    Line two;
    ASSERT_TRUE(one.parse(plain.data(), plain.data() + plain.size())) << plain;
    ASSERT_TRUE(two.parse(other.data(), other.data() + other.size())) << other;
    EXPECT_EQ(one.step, two.step);
    EXPECT_EQ(one.time, two.time);
    EXPECT_EQ(one.note, two.note);
    ASSERT_EQ(one.count, 1U);
    ASSERT_EQ(two.count, 1U);
    EXPECT_EQ(one.values[0].tag, two.values[0].tag);
    if (std::isnan(one.values[0].number)) {
      EXPECT_TRUE(std::isnan(two.values[0].number));
    } else {
      EXPECT_EQ(one.values[0].number, two.values[0].number);
    }
  }
  Line korean;
  const std::string text = R"({"step":1,"손실":0.5})";
  ASSERT_TRUE(korean.parse(text.data(), text.data() + text.size()));
  EXPECT_EQ(korean.values[0].tag, "손실");
}

TEST(Lines, WhatJsonDoesNotAllowIsNone) {
  for (const char* const wrong : {"",
                                  "{",
                                  "{}",
                                  R"({"step":1)",
                                  R"({"step":1}})",
                                  R"({"step":1}{"step":2})",
                                  R"({"step":01})",
                                  R"({"step":1.})",
                                  R"({"step":+1})",
                                  R"({"step":.5})",
                                  R"({"step":nan})",
                                  R"({"step":inf})",
                                  R"({"step":1,})",
                                  R"({,"step":1})",
                                  R"({"step":"1"})",
                                  R"({"step":1 "a":2})",
                                  R"({"step":1,"a":"text"})",
                                  R"({"step":1,"a":true})",
                                  R"({"step":1,"a":[1]})",
                                  R"({"step":1e30})",
                                  "{\"step\":1,\"a\xff\":1}",
                                  "{\"step\":1,\"a\n\":1}",
                                  R"({"step":1,"a":1.e5})",
                                  R"({"step":1,"a":-})"})
    EXPECT_FALSE(parses(wrong)) << wrong;
}

}  // namespace
}  // namespace sullae::testing
