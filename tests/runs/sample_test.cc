#include "runs/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace sullae::testing {
namespace {

using runs::sample;

TEST(Sample, FewPointsAreAllKept) {
  for (const std::size_t points : {0, 1, 2, 7, 100}) {
    const std::vector<double> x(points, 1);
    EXPECT_EQ(sample(x, x, 100).size(), points);
  }
}

TEST(Sample, EndsAndPeaksOfEachStretchAreKept) {
  std::mt19937 draw(3);
  std::normal_distribution<double> normal;
  for (const std::size_t points : {101, 997, 10'007}) {
    std::vector<double> x(points);
    std::vector<double> y(points);
    double at = 0;
    for (std::size_t i = 0; i < points; ++i) {
      at += std::abs(normal(draw)) + (i % 100 == 0 ? 50 : 0);
      x[i] = at;
      y[i] = normal(draw);
    }
    const std::size_t most = 100;
    const auto kept = sample(x, y, most);
    EXPECT_LE(kept.size(), most);
    EXPECT_EQ(kept.front(), 0U);
    EXPECT_EQ(kept.back(), points - 1);
    EXPECT_TRUE(std::ranges::is_sorted(kept));
    EXPECT_EQ(std::ranges::adjacent_find(kept), kept.end());
    // Of each 25th of x the lowest and the highest.
    const double width = (x.back() - x.front()) / 25;
    for (int stretch = 0; stretch < 25; ++stretch) {
      const auto in = [&](std::size_t i) {
        return x[i] >= x.front() + stretch * width &&
               (stretch == 24 || x[i] < x.front() + (stretch + 1) * width);
      };
      double low = INFINITY;
      double high = -INFINITY;
      for (std::size_t i = 0; i < points; ++i) {
        if (!in(i)) continue;
        low = std::min(low, y[i]);
        high = std::max(high, y[i]);
      }
      double kept_low = INFINITY;
      double kept_high = -INFINITY;
      for (const auto i : kept) {
        if (!in(i)) continue;
        kept_low = std::min(kept_low, y[i]);
        kept_high = std::max(kept_high, y[i]);
      }
      EXPECT_EQ(kept_low, low);
      EXPECT_EQ(kept_high, high);
    }
  }
}

TEST(Sample, AMomentThatIsNoNumberIsSeen) {
  std::vector<double> x(1000);
  std::vector<double> y(1000, 1.0);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
  y[500] = std::nan("");
  const auto kept = sample(x, y, 40);
  EXPECT_NE(std::ranges::find(kept, 500U), kept.end());
}

TEST(Sample, PointsOfOneMomentAreNoDivisionByZero) {
  const std::vector<double> x(1000, 3);
  std::vector<double> y(1000);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<double>(i * 7 % 1000);
  EXPECT_LE(sample(x, y, 40).size(), 40U);
  EXPECT_GE(sample(x, y, 0).size(), 2U);
}

}  // namespace
}  // namespace sullae::testing
