#include "serve/repository/repository_metrics.h"

#include <fmt/format.h>

namespace sullae::serve {
namespace {

double value_of(const VersionMetrics::Counter& counter) {
  return static_cast<double>(counter.load(std::memory_order_relaxed));
}

}  // namespace

void write_metrics(const std::vector<ModelStatus>& models, MetricsText& text) {
  struct Line {
    std::string labels;
    std::shared_ptr<const Version> version;
  };
  std::vector<Line> lines;
  for (const auto& status : models) {
    for (const auto& version : status.versions) {
      if (version.version)
        lines.push_back({fmt::format("model=\"{}\",version=\"{}\"",
                                     MetricsText::escape(status.name), version.number),
                         version.version});
    }
  }
  const auto counter = [&](const char* name, const char* help, const char* type, auto value) {
    text.family(name, type, help);
    for (const Line& line : lines) text.sample(name, line.labels, value(*line.version));
  };
  constexpr double kMicrosecond = 1e3;  // nanoseconds
  counter("nv_inference_request_success", "Requests that were answered", "counter",
          [&](const Version& v) { return value_of(v.metrics().success); });
  counter("nv_inference_request_failure", "Requests that failed", "counter",
          [&](const Version& v) { return value_of(v.metrics().failure); });
  counter("nv_inference_count", "Rows that were computed", "counter",
          [&](const Version& v) { return value_of(v.metrics().rows); });
  counter("nv_inference_exec_count", "Batches that were computed", "counter",
          [&](const Version& v) { return value_of(v.metrics().executions); });
  counter("nv_inference_request_duration_us", "Time of requests in all", "counter",
          [&](const Version& v) { return value_of(v.metrics().request_ns) / kMicrosecond; });
  counter("nv_inference_queue_duration_us", "Time that requests waited", "counter",
          [&](const Version& v) { return value_of(v.metrics().queue_ns) / kMicrosecond; });
  counter("nv_inference_compute_input_duration_us", "Time of decoding inputs", "counter",
          [&](const Version& v) { return value_of(v.metrics().input_ns) / kMicrosecond; });
  counter("nv_inference_compute_infer_duration_us", "Time in the network", "counter",
          [&](const Version& v) { return value_of(v.metrics().infer_ns) / kMicrosecond; });
  counter("nv_inference_compute_output_duration_us", "Time of encoding outputs", "counter",
          [&](const Version& v) { return value_of(v.metrics().output_ns) / kMicrosecond; });
  counter("nv_inference_pending_request_count", "Rows that wait", "gauge",
          [&](const Version& v) { return static_cast<double>(v.waiting()); });
  counter("sullae_kv_cache_bytes", "Memory of what is kept of texts that go on", "gauge",
          [&](const Version& v) { return static_cast<double>(v.cache_memory().used()); });
  text.family("sullae_request_duration_seconds", "histogram", "Time of requests");
  for (const Line& line : lines) {
    const auto& latency = line.version->metrics().latency;
    for (std::size_t i = 0; i < Histogram::kBounds.size(); ++i)
      text.sample("sullae_request_duration_seconds_bucket",
                  fmt::format("{},le=\"{}\"", line.labels, Histogram::kBounds[i]),
                  static_cast<double>(latency.at_most(i)));
    text.sample("sullae_request_duration_seconds_bucket", line.labels + ",le=\"+Inf\"",
                static_cast<double>(latency.count()));
    text.sample("sullae_request_duration_seconds_sum", line.labels, latency.sum_seconds());
    text.sample("sullae_request_duration_seconds_count", line.labels,
                static_cast<double>(latency.count()));
  }
  text.family("sullae_batch_rows", "histogram", "Rows of the batches that were computed");
  for (const Line& line : lines) {
    const auto& metrics = line.version->metrics();
    double sum = 0;
    for (int bucket = 0; bucket < VersionMetrics::kBatchBuckets - 1; ++bucket) {
      sum += value_of(metrics.batches[static_cast<std::size_t>(bucket)]);
      text.sample("sullae_batch_rows_bucket", fmt::format("{},le=\"{}\"", line.labels, 1 << bucket),
                  sum);
    }
    sum += value_of(metrics.batches.back());
    text.sample("sullae_batch_rows_bucket", line.labels + ",le=\"+Inf\"", sum);
    text.sample("sullae_batch_rows_sum", line.labels, value_of(metrics.rows));
    text.sample("sullae_batch_rows_count", line.labels, sum);
  }
  text.family("sullae_version_serving", "gauge",
              "Whether a version answers requests for none in particular");
  for (const auto& status : models) {
    for (const auto& version : status.versions)
      text.sample(
          "sullae_version_serving",
          fmt::format("model=\"{}\",version=\"{}\",state=\"{}\"", MetricsText::escape(status.name),
                      version.number, name_of(version.state)),
          version.number == status.serving ? 1 : 0);
  }
}

}  // namespace sullae::serve
