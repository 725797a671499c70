#include "base/config.h"

#include <gtest/gtest.h>

#include "sullae/error.h"

namespace sullae::testing {
namespace {

Config with(std::string name, std::string value) {
  return Config::from([=](std::string_view asked) -> std::optional<std::string> {
    return asked == name ? std::optional(value) : std::nullopt;
  });
}

TEST(Config, HasDefaults) {
  const Config config = with("", "");
  EXPECT_EQ(config.timeout, std::chrono::minutes{10});
  EXPECT_EQ(config.transport, "auto");
}

TEST(Config, ReadsSecondsWithFractions) {
  EXPECT_EQ(with("SULLAE_TIMEOUT", "2.5").timeout, std::chrono::milliseconds{2500});
  EXPECT_EQ(with("SULLAE_RENDEZVOUS_TIMEOUT", "7").rendezvous_timeout, std::chrono::seconds{7});
}

TEST(Config, NamesTheVariableThatIsWrong) {
  for (const char* value : {"", "x", "-1", "0", "1s", "nan", "inf"}) {
    try {
      with("SULLAE_TIMEOUT", value);
      ADD_FAILURE() << value;
    } catch (const InputError& error) {
      EXPECT_EQ(error.what(), "SULLAE_TIMEOUT='" + std::string(value) +
                                  "': expected a positive number of seconds");
    }
  }
}

TEST(ParseInteger, TakesWholeNumbersInRange) {
  EXPECT_EQ(parse_integer("-3", "x", -5, 5), -3);
  for (const char* text : {"", "6", "1.0", " 1", "1 ", "0x1", "99999999999999999999"}) {
    EXPECT_THROW(parse_integer(text, "x", -5, 5), InputError) << text;
  }
}

}  // namespace
}  // namespace sullae::testing
