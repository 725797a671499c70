#include "predict/evaluation.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "sullae/error.h"
#include "support/errors.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using predict::Confusion;

TEST(Confusion, CountsPairs) {
  Confusion confusion({"cat", "dog", "owl"});
  for (int i = 0; i < 6; ++i) confusion.add("cat", i < 4 ? "cat" : "dog");
  for (int i = 0; i < 2; ++i) confusion.add("dog", "dog");
  EXPECT_EQ(confusion.samples(), 8);
  EXPECT_EQ(confusion.accuracy(), 0.75);
  EXPECT_EQ(confusion.count(0, 1), 2);
  const auto cat = confusion.of_class(0);
  EXPECT_EQ(cat.samples, 6);
  EXPECT_EQ(cat.precision, 1);
  EXPECT_NEAR(cat.recall, 4.0 / 6, 1e-12);
  EXPECT_NEAR(cat.f1, 0.8, 1e-12);
  EXPECT_NEAR(confusion.of_class(1).precision, 0.5, 1e-12);
  EXPECT_EQ(confusion.of_class(2).f1, 0);
  // Of the two that samples have.
  EXPECT_NEAR(confusion.macro_f1(), (0.8 + 2.0 / 3) / 2, 1e-12);
  // One that is predicted alone counts, too.
  Confusion wrong({"cat", "dog", "owl"});
  for (int i = 0; i < 4; ++i) wrong.add("cat", i < 2 ? "cat" : "dog");
  EXPECT_NEAR(wrong.macro_f1(), (2.0 / 3 + 0) / 2, 1e-12);

  Confusion sum({"cat", "dog", "owl"});
  sum.add(confusion.counts());
  sum.add(confusion.counts());
  EXPECT_EQ(sum.count(0, 0), 8);
  EXPECT_TRUE(contains(sum.to_text(), "accuracy 75.00 % of 16 samples"));
  EXPECT_EQ(sum.to_json()["confusion"][0][1], 4);
}

// As an earlier version has noted it.
TEST(Confusion, TheWholeMatrixIsReadToo) {
  Confusion confusion({"cat", "dog"});
  confusion.add(nlohmann::json::parse("[3, 1, 0, 2]"));
  EXPECT_EQ(confusion.count(0, 1), 1);
  EXPECT_EQ(confusion.of_class(0).samples, 4);
  EXPECT_EQ(confusion.counts(), nlohmann::json::parse("[[0, 0, 3], [0, 1, 1], [1, 1, 2]]"));
}

// Their square is 36 million.
TEST(Confusion, OfManyClassesIsAsLargeAsWhatWasSeen) {
  constexpr std::size_t kClasses = 6000;
  std::vector<std::string> classes;
  for (std::size_t i = 0; i < kClasses; ++i) classes.push_back("c" + std::to_string(i));
  Confusion confusion(classes);
  for (std::size_t i = 0; i < kClasses; ++i)
    confusion.add(classes[i], classes[i % 2 == 0 ? i : i - 1]);
  EXPECT_LT(confusion.counts().dump().size(), std::size_t{1} << 20);
  Confusion sum(classes);
  sum.add(confusion.counts());
  EXPECT_EQ(sum.samples(), 6000);
  EXPECT_EQ(sum.accuracy(), 0.5);
  EXPECT_EQ(sum.of_class(4).precision, 0.5);
  const auto report = sum.to_json();
  EXPECT_FALSE(report.contains("confusion"));
  EXPECT_EQ(report.at("confusion_counts").size(), kClasses);
  const TemporaryDirectory directory;
  write_page(directory.path() / "page.html", sum, "many");
  const auto page = read_file(directory.path() / "page.html", std::size_t{4} << 20);
  EXPECT_TRUE(contains(page, "left out for more than 200 classes"));
  EXPECT_FALSE(contains(page, "class=\"cell\""));
}

TEST(Confusion, OfNothingIsZero) {
  const Confusion nothing({"cat", "dog"});
  EXPECT_EQ(nothing.accuracy(), 0);
  EXPECT_EQ(nothing.macro_f1(), 0);
  EXPECT_TRUE(contains(nothing.to_text(), "accuracy 0.00 % of 0 samples"));
}

TEST(Confusion, NamesWhatItDoesNotKnow) {
  Confusion confusion({"cat", "dog"});
  EXPECT_TRUE(contains(error_of([&] { confusion.add("cow", "cat"); }),
                       "--labels: 'cow' is none of the model's 2 classes (cat, dog)"));
  EXPECT_TRUE(contains(error_of([&] { confusion.add(nlohmann::json::parse("[1, 2]")); }),
                       "counts of 2 pairs of classes, expected 4"));
  EXPECT_TRUE(contains(error_of([&] { confusion.add(nlohmann::json::parse("[[0, 2, 1]]")); }),
                       "a count of the classes 0 and 2, expected 0 to 1"));
}

}  // namespace
}  // namespace sullae::testing
