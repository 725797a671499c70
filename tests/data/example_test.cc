#include "sullae/data/example.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "support/errors.h"

namespace sullae::testing {
namespace {

using data::Features;
using Integers = std::vector<std::int64_t>;

std::vector<std::string> names_of(const Features& features) {
  std::vector<std::string> names;
  for (const auto& [name, feature] : features) names.push_back(name);
  return names;
}

TEST(Values, AreAListWhetherOneOrMany) {
  using Texts = data::Values<std::string>;
  const std::string longer(100, 'x');
  Texts values;
  EXPECT_TRUE(values.empty());
  EXPECT_EQ(values.begin(), values.end());
  std::vector<std::string> expected;
  for (const auto& text : {longer, std::string("a"), std::string(), longer}) {
    values.push_back(text);
    expected.push_back(text);
    EXPECT_EQ(std::vector<std::string>(values.begin(), values.end()), expected);
    EXPECT_EQ(values, Texts(expected)) << "in a list of its own";
    EXPECT_EQ(values.front(), longer);
    EXPECT_EQ(values[expected.size() - 1], text);
  }
  EXPECT_EQ(Texts(longer), Texts{longer});
  EXPECT_EQ(Texts(longer), Texts(std::vector{longer}));
  EXPECT_NE(Texts(longer), Texts());
  EXPECT_NE(Texts(longer), (Texts{longer, longer}));
  values.push_back(values.front());
  EXPECT_EQ(values[4], longer);
  Texts twice(longer);
  twice.push_back(twice.front());
  EXPECT_EQ(twice, (Texts{longer, longer}));
  Texts room;
  room.reserve(3);
  room.push_back("b");
  EXPECT_EQ(room, Texts{"b"});
  const Texts copy = room;
  Texts moved = std::move(room);
  EXPECT_EQ(moved, copy);
}

TEST(Features, AreInTheOrderOfNames) {
  Features features;
  EXPECT_TRUE(features.empty());
  for (const char* name : {"text", "image/class/text", "label", "a"})
    features.insert_or_assign(name, Integers{1});
  EXPECT_EQ(names_of(features),
            (std::vector<std::string>{"a", "image/class/text", "label", "text"}));
  features.insert_or_assign("label", Integers{2});
  EXPECT_EQ(features.size(), 4U);
  EXPECT_EQ(features.at("label"), data::Feature(Integers{2}));
}

TEST(Features, AreFoundHoweverManyThereAre) {
  for (const int count : {0, 1, 2, 8, 9, 100}) {
    Features features;
    for (int i = count; i-- > 0;) features[std::to_string(i * 7 % 101)] = Integers{i};
    EXPECT_EQ(static_cast<int>(features.size()), count);
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(features.contains(std::to_string(i * 7 % 101))) << count;
      EXPECT_EQ(features.at(std::to_string(i * 7 % 101)), data::Feature(Integers{i}));
    }
    EXPECT_FALSE(features.contains("none"));
    EXPECT_EQ(features.find(""), features.end());
    EXPECT_EQ(error_of<std::out_of_range>([&] { static_cast<void>(features.at("none")); }),
              "there is no feature 'none' in this sample");
  }
}

TEST(Features, AreErased) {
  Features features;
  features["a"] = Integers{1};
  features["b"] = Integers{2};
  EXPECT_FALSE(features.erase("c"));
  EXPECT_TRUE(features.erase("a"));
  EXPECT_EQ(names_of(features), std::vector<std::string>{"b"});
  Features other;
  EXPECT_NE(features, other);
  other["b"] = Integers{2};
  EXPECT_EQ(features, other);
}

TEST(Features, ThatAreNewHaveNoValues) {
  Features features;
  EXPECT_EQ(features["a"], data::Feature(std::vector<std::string>()));
}

}  // namespace
}  // namespace sullae::testing
