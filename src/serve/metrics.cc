#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sullae::serve {
namespace {

constexpr double kLeast = 1e-6;  // seconds, the bound of the first bucket

}  // namespace

double Histogram::bound(int bucket) {
  return kLeast * std::exp2(static_cast<double>(bucket) / kSteps);
}

void Histogram::add(std::chrono::nanoseconds duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  const int bucket =
      seconds <= kLeast
          ? 0
          : std::min(static_cast<int>(std::ceil(std::log2(seconds / kLeast) * kSteps)),
                     kBuckets - 1);
  buckets_[static_cast<std::size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  const auto least = std::ranges::lower_bound(kBounds, seconds);
  if (least != kBounds.end())
    between_[static_cast<std::size_t>(least - kBounds.begin())].fetch_add(
        1, std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_relaxed);
  nanoseconds_.fetch_add(static_cast<std::uint64_t>(duration.count()), std::memory_order_relaxed);
}

double Histogram::sum_seconds() const {
  return static_cast<double>(nanoseconds_.load(std::memory_order_relaxed)) * 1e-9;
}

std::vector<std::pair<double, std::uint64_t>> Histogram::buckets() const {
  std::vector<std::pair<double, std::uint64_t>> list;
  for (int bucket = 0; bucket < kBuckets; ++bucket) {
    const auto count = buckets_[static_cast<std::size_t>(bucket)].load(std::memory_order_relaxed);
    if (count > 0) list.emplace_back(bound(bucket), count);
  }
  return list;
}

std::uint64_t Histogram::at_most(std::size_t bound) const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i <= bound; ++i) sum += between_[i].load(std::memory_order_relaxed);
  return sum;
}

void VersionMetrics::count_batch(std::int64_t rows_of_batch) {
  ++executions;
  executed_rows += static_cast<std::uint64_t>(std::max<std::int64_t>(rows_of_batch, 0));
  const auto bucket =
      std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(rows_of_batch, 1) - 1));
  ++batches[static_cast<std::size_t>(std::min(static_cast<int>(bucket), kBatchBuckets - 1))];
}

void MetricsText::family(const std::string& name, const std::string& type,
                         const std::string& help) {
  text_ += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

void MetricsText::sample(const std::string& name, const std::string& labels, double value) {
  text_ += fmt::format("{}{{{}}} {}\n", name, labels, value);
}

std::string MetricsText::escape(const std::string& value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

}  // namespace sullae::serve
