// What a slice becomes.
#include "ps/server/shard.h"

#include <gtest/gtest.h>

namespace sullae::ps {
namespace {

const std::vector<std::uint8_t> kPresent{1};

Shard shard_of_zero() {
  Shard shard({1}, Rule{});
  shard.set_values({0});
  return shard;
}

TEST(Shard, AveragesWhatIsAdded) {
  Shard shard = shard_of_zero();
  for (const auto& round : {std::vector<float>{1, 6, 2}, std::vector<float>{3, 3, 3}}) {
    for (const float& value : round)
      shard.add({.learning_rate = 1, .present = kPresent, .values = &value});
    shard.apply_sum(1.0F / 3);
  }
  EXPECT_FLOAT_EQ((*shard.values())[0], -6);
}

TEST(Shard, LeavesAloneWhatHasNoGradient) {
  const std::vector<std::uint8_t> second{0, 1};
  const std::vector<float> gradient{5, 5, 5};
  const Shard::Gradient given{.learning_rate = 0.5, .present = second, .values = gradient.data()};
  for (const bool is_summed : {false, true}) {
    Shard shard({2, 1}, {.kind = Rule::Kind::adam});
    shard.set_values({1, 1, 1});
    if (is_summed) {
      shard.add(given);
      shard.apply_sum(1);
    } else {
      shard.apply(given);
    }
    EXPECT_EQ((*shard.values())[0], 1);
    EXPECT_EQ((*shard.values())[1], 1);
    EXPECT_FLOAT_EQ((*shard.values())[2], 0.5);
  }
}

// What is on its way to a worker stays as it was.
TEST(Shard, ChangesNoValuesThatSomebodyKeeps) {
  Shard shard = shard_of_zero();
  const auto kept = shard.values();
  const float one = 1;
  shard.apply({.learning_rate = 1, .present = kPresent, .values = &one});
  EXPECT_EQ((*kept)[0], 0);
  EXPECT_EQ((*shard.values())[0], -1);
}

}  // namespace
}  // namespace sullae::ps
