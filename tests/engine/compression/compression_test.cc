#include "sullae/compression.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/errors.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

std::vector<float> values_of(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = std::sin(static_cast<float>(i * 7 + static_cast<std::size_t>(rank) * 13));
  return values;
}

TEST(Compression, SixteenBitsRoundWhatTravels) {
  run_ranks({.size = 3}, [](World& world) {
    for (const auto& [name, error] : {std::pair{"float16", 4e-3F}, std::pair{"bfloat16", 3e-2F}}) {
      const std::shared_ptr<Compression> compression = make_compression(name);
      for (const std::size_t count : {0U, 1U, 7U, 10007U}) {
        auto values = values_of(world.rank(), count);
        world
            .allreduce_async(values.data(), values.data(), count, DataType::float32,
                             ReduceOp::average, {.name = "x", .compression = compression})
            .wait();
        auto same = values;
        world.broadcast(same.data(), count, DataType::float32, 0);
        EXPECT_EQ(values, same);
        std::vector<float> want(count);
        for (int rank = 0; rank < 3; ++rank) {
          const auto theirs = values_of(rank, count);
          for (std::size_t i = 0; i < count; ++i) want[i] += theirs[i] / 3;
        }
        for (std::size_t i = 0; i < count; ++i) ASSERT_NEAR(values[i], want[i], error) << name;
      }
    }
  });
}

// Who skips a step for it must see it, and what comes after it is what it would have been.
TEST(Compression, TopKShowsWhatIsNoNumber) {
  run_ranks({.size = 2}, [](World& world) {
    const std::shared_ptr<Compression> compression = make_compression("topk:0.1");
    const auto reduced = [&](float odd) {
      std::vector<float> values(100, 1.0F);
      values[3] = odd;
      world
          .allreduce_async(values.data(), values.data(), values.size(), DataType::float32,
                           ReduceOp::sum, {.name = "x", .compression = compression})
          .wait();
      return values[3];
    };
    EXPECT_TRUE(std::isnan(reduced(world.rank() == 0 ? std::nanf("") : 1.0F)));
    EXPECT_GE(reduced(50.0F), 100.0F);
  });
}

// Nothing is lost: what does not travel in one step does in a later one.
TEST(Compression, TopKKeepsWhatDoesNotTravel) {
  run_ranks({.size = 2}, [](World& world) {
    constexpr std::size_t kCount = 100;
    constexpr int kSteps = 40;
    const std::shared_ptr<Compression> compression = make_compression("topk:0.1");
    std::vector<float> arrived(kCount);
    for (int step = 0; step < kSteps; ++step) {
      std::vector<float> values(kCount);
      std::iota(values.begin(), values.end(), static_cast<float>(1 + world.rank()));
      if (step >= 20) std::ranges::fill(values, 0.0F);
      std::vector<float> out(kCount);
      world
          .allreduce_async(values.data(), out.data(), kCount, DataType::float32, ReduceOp::sum,
                           {.name = "x", .compression = compression})
          .wait();
      EXPECT_LE(kCount - static_cast<std::size_t>(std::ranges::count(out, 0.0F)), 20U);
      for (std::size_t i = 0; i < kCount; ++i) arrived[i] += out[i];
    }
    for (std::size_t i = 0; i < kCount; ++i)
      EXPECT_FLOAT_EQ(arrived[i], 20 * (2 * static_cast<float>(i) + 3));
  });
}

// A policy from outside the library: the signs alone travel.
class Signs final : public Compression {
 public:
  std::string name() const override { return "signs"; }
  void allreduce(Communicator& ranks, float* values, std::size_t count, ReduceOp) override {
    std::vector<std::int8_t> signs(count);
    for (std::size_t i = 0; i < count; ++i) signs[i] = values[i] < 0 ? -1 : 1;
    ranks.allreduce(signs.data(), signs.data(), count, DataType::int8, ReduceOp::sum);
    for (std::size_t i = 0; i < count; ++i) values[i] = signs[i];
  }
};

TEST(Compression, MayBeAddedFromOutside) {
  register_compression("signs", [](std::string_view) { return std::make_unique<Signs>(); });
  run_ranks({.size = 3}, [](World& world) {
    const std::shared_ptr<Compression> compression = make_compression("signs");
    std::vector<float> values = {5.0F, world.rank() == 0 ? -1.0F : 1.0F};
    world
        .allreduce_async(values.data(), values.data(), 2, DataType::float32, ReduceOp::sum,
                         {.name = "x", .compression = compression})
        .wait();
    EXPECT_EQ(values, (std::vector<float>{3.0F, 1.0F}));
  });
}

TEST(Compression, SaysWhatIsWrong) {
  EXPECT_FALSE(make_compression("none"));
  EXPECT_TRUE(contains(error_of([] { make_compression("zip"); }),
                       "compression 'zip': expected one of none, bfloat16, float16"));
  EXPECT_TRUE(contains(error_of([] { make_compression("topk"); }), "above 0 and at most 1"));
  EXPECT_TRUE(contains(error_of([] { make_compression("topk:2"); }), "above 0 and at most 1"));
  EXPECT_TRUE(contains(error_of([] { make_compression("float16:1"); }), "takes no parameter"));
  const World world = World::create({});
  const std::shared_ptr<Compression> compression = make_compression("float16");
  double value = 1;
  EXPECT_TRUE(contains(error_of([&] {
                         world.allreduce_async(&value, &value, 1, DataType::float64, ReduceOp::sum,
                                               {.compression = compression});
                       }),
                       "not for allreduce (sum) of 1 float64"));
}

TEST(Compression, ThatDiffersBetweenRanksIsRefused) {
  run_ranks({.size = 2}, [](World& world) {
    const std::shared_ptr<Compression> compression =
        make_compression(world.rank() == 0 ? "topk:0.5" : "topk:0.1");
    float value = 1;
    const auto message = error_of([&] {
      world
          .allreduce_async(&value, &value, 1, DataType::float32, ReduceOp::sum,
                           {.name = "x", .compression = compression})
          .wait();
    });
    EXPECT_TRUE(contains(message, "compressed by topk:0.5")) << message;
    EXPECT_TRUE(contains(message, "compressed by topk:0.1")) << message;
  });
}

}  // namespace
}  // namespace sullae::testing
