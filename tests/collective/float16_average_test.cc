// Averages of float16, whose sums may be more than it holds.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "support/ranks.h"
#include "support/values.h"

namespace sullae::testing {
namespace {

// One message's, and more than several slots.
constexpr std::size_t kCounts[] = {7, 4099, 40009, 300007, 600011};

class Float16Average : public ::testing::TestWithParam<Setting> {
 protected:
  void run(const std::function<void(World&)>& body) { run_ranks(GetParam().ranks, body); }
};
INSTANTIATE_TEST_SUITE_P(Everywhere, Float16Average, ::testing::ValuesIn(every_setting()),
                         [](const auto& setting) { return setting.param.name; });

std::vector<std::byte> all_of(double value, std::size_t count) {
  std::vector<std::byte> values(count * 2);
  for (std::size_t i = 0; i < count; ++i) store(values, i, value, DataType::float16);
  return values;
}

// Their sum is more than float16 holds, and so are sums of some of them.
TEST_P(Float16Average, OfLargeValuesIsNotInfinite) {
  run([](World& world) {
    constexpr double kLarge = 60000;
    constexpr double kRounding = 96;  // neighbours are 32 apart
    const auto check = [&](const std::vector<std::byte>& out, std::size_t count, const char* what) {
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_NEAR(load(out, i, DataType::float16), kLarge, kRounding) << what << " of " << count;
    };
    for (const std::size_t count : kCounts) {
      const auto in = all_of(kLarge, count);
      std::vector<std::byte> out(in.size());
      world.allreduce(in.data(), out.data(), count, DataType::float16, ReduceOp::average);
      check(out, count, "allreduce");
      const int root = world.size() - 1;
      world.reduce(in.data(), out.data(), count, DataType::float16, ReduceOp::average, root);
      if (world.rank() == root) check(out, count, "reduce");
      std::vector<std::size_t> counts(static_cast<std::size_t>(world.size()), 0);
      counts.back() = count;
      world.reducescatterv(in.data(), out.data(), counts, DataType::float16, ReduceOp::average);
      check(out, counts[static_cast<std::size_t>(world.rank())], "reducescatter");
      auto place = in;
      world.allreduce(place.data(), place.data(), count, DataType::float16, ReduceOp::average);
      check(place, count, "allreduce in place");
    }
  });
}

// What is small on the way stays what it is: it is not divided by the number of ranks before it is
// added.
TEST_P(Float16Average, OfSmallValuesIsNotZero) {
  run([](World& world) {
    constexpr double kSmall = 0x1p-14;
    for (const std::size_t count : kCounts) {
      auto values = all_of(kSmall, count);
      world.allreduce(values.data(), values.data(), count, DataType::float16, ReduceOp::average);
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_NEAR(load(values, i, DataType::float16), kSmall, 0x1p-22) << count;
    }
  });
}

}  // namespace
}  // namespace sullae::testing
