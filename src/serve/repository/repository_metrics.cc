#include "serve/repository/repository_metrics.h"

#include <fmt/format.h>

namespace sullae::serve {
namespace {

double value_of(const VersionMetrics::Counter& counter) {
  return static_cast<double>(counter.load(std::memory_order_relaxed));
}

// A version that is loaded.
struct Line {
  std::string labels;
  std::shared_ptr<const Version> version;
};

std::vector<Line> lines_of(const std::vector<ModelStatus>& models) {
  std::vector<Line> lines;
  for (const auto& status : models) {
    for (const auto& version : status.versions) {
      if (version.version)
        lines.push_back({fmt::format("model=\"{}\",version=\"{}\"",
                                     MetricsText::escape(status.name), version.number),
                         version.version});
    }
  }
  return lines;
}

void write_counters(const std::vector<Line>& lines, MetricsText& text) {
  const auto write = [&](const char* name, const char* help, const char* type, auto value) {
    text.family(name, type, help);
    for (const Line& line : lines) text.sample(name, line.labels, value(*line.version));
  };
  const auto count = [&](const char* name, const char* help,
                         VersionMetrics::Counter VersionMetrics::*counter) {
    write(name, help, "counter", [&](const Version& v) { return value_of(v.metrics().*counter); });
  };
  const auto time = [&](const char* name, const char* help,
                        VersionMetrics::Counter VersionMetrics::*nanoseconds) {
    constexpr double kMicrosecond = 1e3;
    write(name, help, "counter",
          [&](const Version& v) { return value_of(v.metrics().*nanoseconds) / kMicrosecond; });
  };
  using M = VersionMetrics;
  count("nv_inference_request_success", "Requests that were answered", &M::success);
  count("nv_inference_request_failure", "Requests that failed", &M::failure);
  count("nv_inference_count", "Rows that were computed", &M::rows);
  count("nv_inference_exec_count", "Batches that were computed", &M::executions);
  time("nv_inference_request_duration_us", "Time of requests in all", &M::request_ns);
  time("nv_inference_queue_duration_us", "Time that requests waited", &M::queue_ns);
  time("nv_inference_compute_input_duration_us", "Time of decoding inputs", &M::input_ns);
  time("nv_inference_compute_infer_duration_us", "Time in the network", &M::infer_ns);
  time("nv_inference_compute_output_duration_us", "Time of encoding outputs", &M::output_ns);
  write("nv_inference_pending_request_count", "Rows that wait", "gauge",
        [](const Version& v) { return static_cast<double>(v.waiting()); });
  write("sullae_kv_cache_bytes", "Memory of what is kept of texts that go on", "gauge",
        [](const Version& v) { return static_cast<double>(v.cache_memory().used()); });
}

void write_durations(const std::vector<Line>& lines, MetricsText& text) {
  text.family("sullae_request_duration_seconds", "histogram", "Time of requests");
  for (const auto& [labels, version] : lines) {
    const auto& latency = version->metrics().latency;
    for (std::size_t i = 0; i < Histogram::kBounds.size(); ++i)
      text.sample("sullae_request_duration_seconds_bucket",
                  fmt::format("{},le=\"{}\"", labels, Histogram::kBounds[i]),
                  static_cast<double>(latency.at_most(i)));
    text.sample("sullae_request_duration_seconds_bucket", labels + ",le=\"+Inf\"",
                static_cast<double>(latency.count()));
    text.sample("sullae_request_duration_seconds_sum", labels, latency.sum_seconds());
    text.sample("sullae_request_duration_seconds_count", labels,
                static_cast<double>(latency.count()));
  }
}

void write_batches(const std::vector<Line>& lines, MetricsText& text) {
  text.family("sullae_batch_rows", "histogram", "Rows of the batches that were computed");
  for (const auto& [labels, version] : lines) {
    const auto& metrics = version->metrics();
    double sum = 0;
    for (int bucket = 0; bucket < VersionMetrics::kBatchBuckets - 1; ++bucket) {
      sum += value_of(metrics.batches[static_cast<std::size_t>(bucket)]);
      text.sample("sullae_batch_rows_bucket", fmt::format("{},le=\"{}\"", labels, 1 << bucket),
                  sum);
    }
    sum += value_of(metrics.batches.back());
    text.sample("sullae_batch_rows_bucket", labels + ",le=\"+Inf\"", sum);
    text.sample("sullae_batch_rows_sum", labels, value_of(metrics.executed_rows));
    text.sample("sullae_batch_rows_count", labels, sum);
  }
}

// Also of those that are not loaded.
void write_states(const std::vector<ModelStatus>& models, MetricsText& text) {
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

}  // namespace

void write_metrics(const std::vector<ModelStatus>& models, MetricsText& text) {
  const auto lines = lines_of(models);
  write_counters(lines, text);
  write_durations(lines, text);
  write_batches(lines, text);
  write_states(models, text);
}

}  // namespace sullae::serve
