#include "parallel/units/run_order.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace sullae::testing {
namespace {

TEST(RunOrder, KnowsWhatComesNextOnceItWasSeen) {
  RunOrder order;
  const auto step = [&](std::initializer_list<std::size_t> units) {
    std::vector<std::optional<std::size_t>> next;
    for (const std::size_t unit : units) {
      order.runs(unit);
      next.push_back(order.next());
    }
    order.step_ended();
    return next;
  };
  using Next = std::vector<std::optional<std::size_t>>;
  EXPECT_EQ(step({0, 1, 1, 0}), (Next{{}, {}, {}, {}}));
  EXPECT_EQ(step({0, 1, 1, 0}), (Next{1, 1, 0, {}}));
  EXPECT_EQ(step({0, 2, 2, 0}), (Next{1, {}, {}, {}}));
  EXPECT_EQ(step({0, 2, 2, 0}), (Next{2, 2, 0, {}}));
}

}  // namespace
}  // namespace sullae::testing
