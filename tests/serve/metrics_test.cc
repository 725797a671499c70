// What Prometheus is told of durations and batches.
#include "serve/metrics.h"

#include <gtest/gtest.h>

namespace sullae::testing {
namespace {

using namespace serve;

TEST(Metrics, BucketsHoldWhatTookAtMostTheirBound) {
  Histogram histogram;
  const auto add = [&](double seconds) {
    histogram.add(std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(seconds)));
  };
  for (const double bound : Histogram::kBounds) {
    add(bound * 0.95);
    add(bound * 1.0001);
  }
  EXPECT_EQ(histogram.count(), 24U);
  for (std::size_t i = 0; i < Histogram::kBounds.size(); ++i)
    EXPECT_EQ(histogram.at_most(i), 2 * i + 1) << Histogram::kBounds[i];
}

TEST(Metrics, LargeBatchesAreAboveTheLastBound) {
  VersionMetrics metrics;
  for (const std::int64_t rows : {0, 1, 2, 3, 2048, 2049, 1 << 20}) metrics.count_batch(rows);
  EXPECT_EQ(metrics.batches[0], 2U);
  EXPECT_EQ(metrics.batches[1], 1U);
  EXPECT_EQ(metrics.batches[2], 1U);
  EXPECT_EQ(metrics.batches[11], 1U);
  EXPECT_EQ(metrics.batches[12], 2U);
  EXPECT_EQ(metrics.executions, 7U);
}

}  // namespace
}  // namespace sullae::testing
