// A version of a model: from the moment it was seen until nobody uses it any more.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "http/budget.h"
#include "serve/batching/batcher.h"
#include "serve/metrics.h"
#include "serve/model/model.h"

namespace sullae::serve {

/// A loaded version with its batcher. Any thread.
class Version {
 public:
  /// What a client gets: an answer, or an exception (RequestError where the client is to be told).
  struct Result {
    InferResponse response;
    std::exception_ptr error;
  };
  using Done = std::function<void(Result)>;

  /// Loads, warms up and checks the golden requests. Throws what is wrong with the version.
  Version(std::string model_name, std::int64_t number, const std::filesystem::path& directory,
          const ModelConfig& config);

  std::int64_t number() const { return number_; }
  const Model& model() const { return model_; }
  const VersionMetrics& metrics() const { return metrics_; }
  /// Throws RequestError (invalid) for more rows than a request may have.
  void check_rows(std::int64_t rows) const;
  std::int64_t waiting() const { return batcher_->waiting(); }

  /// Answers `request`. `done` is called once, in whatever thread, also where the request is
  /// refused. `self` keeps this version until then. The configured timeout is that from `arrived`
  /// until it is decoded, and anew while it waits for its batch.
  static void infer(const std::shared_ptr<Version>& self, InferRequest request, Done done,
                    Clock::time_point arrived = Clock::now());

  /// For a request of many steps, which holds what this returns until it ends. Throws RequestError
  /// (overloaded) where as many go on already as rows may wait.
  std::shared_ptr<void> admit();
  /// Rows of a step of it. Whoever `done` belongs to keeps this version until then.
  void submit(Rows rows, Batcher::Done done);
  /// For what the model keeps of texts that go on (kv_cache_megabytes).
  http::Budget& cache_memory() { return cache_memory_; }
  const http::Budget& cache_memory() const { return cache_memory_; }
  /// Such a request has ended.
  void count_request(Clock::duration took, bool succeeded);

 private:
  void check_outputs(const InferRequest& request) const;
  void check_rows(const InferRequest& request) const;
  void count_batch(const Timing& timing, std::int64_t rows, bool succeeded);
  Result finish(Batcher::Outcome outcome, const InferRequest& request);

  std::string model_name_;
  std::int64_t number_;
  std::chrono::milliseconds timeout_;
  Model model_;
  VersionMetrics metrics_;
  http::Budget cache_memory_;
  // After the model, which its threads use.
  std::unique_ptr<Batcher> batcher_;
  std::atomic<std::int64_t> going_on_ = 0;  // requests of many steps
};

}  // namespace sullae::serve
