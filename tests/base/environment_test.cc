#include "base/environment.h"

#include <gtest/gtest.h>

#include <array>

#include "sullae/error.h"
#include "support/environment.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

TEST(Environment, SecondsMayHaveFractions) {
  std::chrono::milliseconds time{3};
  read_seconds(environment_of("T", "2.5"), "T", ZeroMeans::error, time);
  EXPECT_EQ(time, std::chrono::milliseconds{2500});
  read_seconds(environment_of("T", "0"), "T", ZeroMeans::no_limit, time);
  EXPECT_EQ(time, std::chrono::milliseconds{0});
  read_seconds(environment_of("other", "7"), "T", ZeroMeans::no_limit, time);
  EXPECT_EQ(time, std::chrono::milliseconds{0});
}

TEST(Environment, NamesTheVariableThatIsWrong) {
  std::chrono::milliseconds time{3};
  for (const char* value : {"", "x", "-1", "0", "1s", "nan", "inf"}) {
    EXPECT_EQ(
        error_of([&] { read_seconds(environment_of("T", value), "T", ZeroMeans::error, time); }),
        "T='" + std::string(value) + "': expected a positive number of seconds");
  }
  EXPECT_EQ(time, std::chrono::milliseconds{3});
}

TEST(Environment, SwitchesAreZeroOrOne) {
  bool on = false;
  read_switch(environment_of("S", "1"), "S", on);
  EXPECT_TRUE(on);
  read_switch(environment_of("S", "0"), "S", on);
  EXPECT_FALSE(on);
  EXPECT_EQ(error_of([&] { read_switch(environment_of("S", "yes"), "S", on); }),
            "S: 'yes' is not an integer between 0 and 1");
}

TEST(Environment, AChoiceIsOneOfThem) {
  static constexpr std::array<std::string_view, 2> kChoices = {"a", "b"};
  std::size_t choice = 0;
  read_choice(environment_of("C", "b"), "C", kChoices, choice);
  EXPECT_EQ(choice, 1U);
  EXPECT_EQ(error_of([&] { read_choice(environment_of("C", "c"), "C", kChoices, choice); }),
            "C='c': expected one of a, b");
  EXPECT_EQ(choice, 1U);
}

TEST(ParseInteger, TakesWholeNumbersInRange) {
  EXPECT_EQ(parse_integer("-3", "x", -5, 5), -3);
  for (const char* text : {"", "6", "1.0", " 1", "1 ", "0x1", "99999999999999999999"}) {
    EXPECT_THROW(parse_integer(text, "x", -5, 5), InputError) << text;
  }
}

}  // namespace
}  // namespace sullae::testing
