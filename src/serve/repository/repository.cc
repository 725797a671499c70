#include "serve/repository/repository.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <charconv>

#include "base/log.h"
#include "serve/request_error.h"

namespace sullae::serve {
namespace {

namespace fs = std::filesystem;

// What a model may be called: what is safe in a path, and in a metric's label.
bool is_model_name(const std::string& name) {
  return !name.empty() && name.front() != '.' &&
         name.find_first_of("/\\:\"\n") == std::string::npos;
}

double value_of(const VersionMetrics::Counter& counter) {
  return static_cast<double>(counter.load(std::memory_order_relaxed));
}

}  // namespace

Repository::Repository(const RepositoryOptions& options) : options_(options) {
  std::error_code error;
  if (!fs::is_directory(options_.directory, error))
    throw InputError(
        fmt::format("{}: is no folder; expected a model repository: "
                    "DIR/<model>/<version>/model.ckpt or model.pt",
                    options_.directory.string()));
}

Repository::~Repository() {
  {
    const std::lock_guard lock(watch_mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

void Repository::start() {
  find_models();
  for (const auto& model : models()) update(*model);
  started_ = true;
  watcher_ = std::thread([this] { watch(); });
}

void Repository::find_models() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(options_.directory, error)) {
    const auto name = entry.path().filename().string();
    if (!entry.is_directory(error) || !is_model_name(name)) continue;
    const std::unique_lock lock(mutex_);
    if (!models_.contains(name))
      models_.emplace(name, std::make_shared<ServedModel>(name, entry.path()));
  }
}

void Repository::update(ServedModel& model) {
  const std::lock_guard lock(update_mutex_);
  for (auto& version : model.update()) retired_.push_back(std::move(version));
}

// A version is destroyed here and not where its last request ended, which would hold that thread up.
void Repository::free_unused() {
  const std::lock_guard lock(update_mutex_);
  const auto before = retired_.size();
  std::erase_if(retired_, [](const auto& version) { return version.use_count() == 1; });
  // Weights are freed in pieces that the C library would keep.
  if (retired_.size() < before) ::malloc_trim(0);
}

void Repository::watch() {
  std::unique_lock lock(watch_mutex_);
  while (!stop_.wait_for(lock, options_.poll, [&] { return stopping_; })) {
    lock.unlock();
    find_models();
    for (const auto& model : models()) update(*model);
    free_unused();
    lock.lock();
  }
}

bool Repository::ready() const {
  return started_ &&
         std::ranges::all_of(models(), [](const auto& model) { return model->answers(); });
}

std::shared_ptr<ServedModel> Repository::find(const std::string& model) const {
  const std::shared_lock lock(mutex_);
  const auto found = models_.find(model);
  if (found == models_.end())
    throw RequestError(Refusal::not_found, fmt::format("there is no model '{}'", model));
  return found->second;
}

std::shared_ptr<Version> Repository::choose(const std::string& model,
                                            const std::string& version) const {
  const auto served = find(model);
  if (version.empty()) return served->choose(std::nullopt);
  std::int64_t number = 0;
  const char* const end = version.data() + version.size();
  const auto [stop, error] = std::from_chars(version.data(), end, number);
  if (error != std::errc{} || stop != end || number < 1)
    throw RequestError(Refusal::not_found,
                       fmt::format("version '{}': expected a number from 1", version));
  return served->choose(number);
}

ModelStatus Repository::status(const std::string& model) const { return find(model)->status(); }

std::vector<std::shared_ptr<ServedModel>> Repository::models() const {
  const std::shared_lock lock(mutex_);
  std::vector<std::shared_ptr<ServedModel>> models;
  for (const auto& entry : models_) models.push_back(entry.second);
  return models;
}

std::vector<ModelStatus> Repository::index() const {
  std::vector<ModelStatus> statuses;
  for (const auto& model : models()) statuses.push_back(model->status());
  return statuses;
}

ModelStatus Repository::roll_back(const std::string& model) {
  const auto served = find(model);
  served->roll_back();
  update(*served);
  return served->status();
}

ModelStatus Repository::set_canary(const std::string& model, std::int64_t version, int percent) {
  const auto served = find(model);
  served->set_canary(version, percent);
  update(*served);
  return served->status();
}

ModelStatus Repository::reload(const std::string& model) {
  find_models();
  const auto served = find(model);
  served->forget_refusals();
  update(*served);
  return served->status();
}

std::string Repository::metrics() const {
  struct Line {
    std::string labels;
    std::shared_ptr<const Version> version;
  };
  std::vector<Line> lines;
  const auto statuses = index();
  for (const auto& status : statuses) {
    for (const auto& version : status.versions) {
      if (version.version)
        lines.push_back({fmt::format("model=\"{}\",version=\"{}\"",
                                     MetricsText::escape(status.name), version.number),
                         version.version});
    }
  }
  MetricsText text;
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
  text.family("sullae_request_duration_seconds", "histogram", "Time of requests");
  for (const Line& line : lines) {
    const auto& latency = line.version->metrics().latency;
    for (const double bound :
         {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0})
      text.sample("sullae_request_duration_seconds_bucket",
                  fmt::format("{},le=\"{}\"", line.labels, bound),
                  static_cast<double>(latency.at_most(bound)));
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
    for (int bucket = 0; bucket < VersionMetrics::kBatchBuckets; ++bucket) {
      sum += value_of(metrics.batches[static_cast<std::size_t>(bucket)]);
      text.sample("sullae_batch_rows_bucket", fmt::format("{},le=\"{}\"", line.labels, 1 << bucket),
                  sum);
    }
    text.sample("sullae_batch_rows_bucket", line.labels + ",le=\"+Inf\"", sum);
    text.sample("sullae_batch_rows_sum", line.labels, value_of(metrics.rows));
    text.sample("sullae_batch_rows_count", line.labels, sum);
  }
  text.family("sullae_version_serving", "gauge",
              "Whether a version answers requests for none in particular");
  for (const auto& status : statuses) {
    for (const auto& version : status.versions)
      text.sample(
          "sullae_version_serving",
          fmt::format("model=\"{}\",version=\"{}\",state=\"{}\"", MetricsText::escape(status.name),
                      version.number, name_of(version.state)),
          version.number == status.serving ? 1 : 0);
  }
  return text.text();
}

}  // namespace sullae::serve
