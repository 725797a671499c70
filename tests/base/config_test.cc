#include "base/config.h"

#include <gtest/gtest.h>

#include "sullae/error.h"
#include "support/errors.h"

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

TEST(Config, SwitchesAreZeroOrOne) {
  EXPECT_FALSE(with("", "").autotune);
  EXPECT_TRUE(with("SULLAE_AUTOTUNE", "1").autotune);
  EXPECT_FALSE(with("SULLAE_AUTOTUNE", "0").autotune);
  EXPECT_TRUE(with("SULLAE_HIERARCHICAL_ADASUM", "1").hierarchical_adasum);
  EXPECT_TRUE(with("SULLAE_HIERARCHICAL_NCCL", "1").hierarchical_nccl);
  EXPECT_EQ(error_of([] { with("SULLAE_AUTOTUNE", "yes"); }),
            "SULLAE_AUTOTUNE: 'yes' is not an integer between 0 and 1");
}

TEST(Config, ASampleHasAStep) {
  EXPECT_EQ(with("SULLAE_AUTOTUNE_STEPS_PER_SAMPLE", "3").autotune_steps_per_sample, 3U);
  EXPECT_TRUE(error_of([] {
                with("SULLAE_AUTOTUNE_STEPS_PER_SAMPLE", "0");
              }).starts_with("SULLAE_AUTOTUNE_STEPS_PER_SAMPLE: '0' is not an integer between 1 "));
}

TEST(ParseInteger, TakesWholeNumbersInRange) {
  EXPECT_EQ(parse_integer("-3", "x", -5, 5), -3);
  for (const char* text : {"", "6", "1.0", " 1", "1 ", "0x1", "99999999999999999999"}) {
    EXPECT_THROW(parse_integer(text, "x", -5, 5), InputError) << text;
  }
}

}  // namespace
}  // namespace sullae::testing
