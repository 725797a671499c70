// Counters of what was served, under the names that users of Triton know.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sullae::serve {

/// Durations in buckets whose bounds are a quarter of a power of two apart. Any thread.
class Histogram {
 public:
  void add(std::chrono::nanoseconds duration);
  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  double sum_seconds() const;
  /// The buckets that hold something: their upper bounds in seconds, and how many they hold.
  std::vector<std::pair<double, std::uint64_t>> buckets() const;
  /// Bounds in seconds for which it is counted exactly how many took at most so long.
  static constexpr std::array kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                         0.1,   0.25,   0.5,   1.0,  2.5,   10.0};
  /// Of the bound of this number.
  std::uint64_t at_most(std::size_t bound) const;

 private:
  static constexpr int kSteps = 4;  // a doubling
  static constexpr int kBuckets = 40 * kSteps;
  static double bound(int bucket);
  std::array<std::atomic<std::uint64_t>, kBuckets> buckets_ = {};
  std::array<std::atomic<std::uint64_t>, kBounds.size()> between_ = {};  // above the bound before
  std::atomic<std::uint64_t> count_ = 0;
  std::atomic<std::uint64_t> nanoseconds_ = 0;
};

/// Of a version of a model. Any thread.
struct VersionMetrics {
  using Counter = std::atomic<std::uint64_t>;
  static constexpr int kBatchBuckets = 13;  // 1, 2, 4, … rows, and more

  Counter success = 0;
  Counter failure = 0;
  Counter rows = 0;
  Counter executions = 0;
  Counter executed_rows = 0;  // also of those that failed
  Counter failure_ns = 0;
  // Of those that succeeded.
  Counter request_ns = 0;
  Counter queue_ns = 0;
  Counter input_ns = 0;
  Counter infer_ns = 0;
  Counter output_ns = 0;
  std::array<Counter, kBatchBuckets> batches =
      {};  // by rows, rounded up to a power of two; the last: all above
  Histogram latency;

  void count_batch(std::int64_t rows_of_batch);
};

/// A family of metrics in Prometheus' text format.
class MetricsText {
 public:
  /// `type` is "counter", "gauge" or "histogram".
  void family(const std::string& name, const std::string& type, const std::string& help);
  /// `labels` as `model="a",version="1"`.
  void sample(const std::string& name, const std::string& labels, double value);
  const std::string& text() const { return text_; }
  /// A label's value with what must be escaped.
  static std::string escape(const std::string& value);

 private:
  std::string text_;
};

}  // namespace sullae::serve
