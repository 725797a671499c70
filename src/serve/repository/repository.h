// The model repository: a folder a model, watched for new versions.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/repository/served_model.h"

namespace sullae::serve {

struct RepositoryOptions {
  std::filesystem::path directory;
  /// Between looks at the folders.
  std::chrono::milliseconds poll{1000};
};

/// Any thread may call it. A thread of its own loads and frees versions.
class Repository {
 public:
  /// Throws InputError where there is no such folder.
  explicit Repository(const RepositoryOptions& options);
  ~Repository();
  Repository(const Repository&) = delete;
  Repository& operator=(const Repository&) = delete;

  /// Looks for the first time, and returns when every model that can be loaded is. Then watches.
  void start();
  /// Whether start() has ended and every model has a version that answers.
  bool ready() const;

  /// Throws RequestError (not_found, unavailable).
  std::shared_ptr<Version> choose(const std::string& model, const std::string& version) const;
  /// Throws RequestError (not_found) where there is no such model.
  void expect(const std::string& model) const { find(model); }
  /// Throws RequestError (not_found).
  ModelStatus status(const std::string& model) const;
  std::vector<ModelStatus> index() const;

  /// These return when the change has been made. Throw RequestError.
  ModelStatus roll_back(const std::string& model);
  ModelStatus set_canary(const std::string& model, std::int64_t version, int percent);
  /// Looks at the model's folder now, also at versions that were refused or withdrawn.
  ModelStatus reload(const std::string& model);

 private:
  std::shared_ptr<ServedModel> find(const std::string& model) const;
  std::vector<std::shared_ptr<ServedModel>> models() const;
  void find_models();
  void update(ServedModel& model, bool at_once = false);
  void free_unused();
  void watch();

  RepositoryOptions options_;
  mutable std::shared_mutex mutex_;
  std::map<std::string, std::shared_ptr<ServedModel>> models_;  // guarded by mutex_
  std::atomic<bool> started_ = false;

  // Updates of models, one at a time: loading takes memory and processors.
  std::mutex update_mutex_;
  std::vector<std::shared_ptr<Version>> retired_;  // guarded by update_mutex_

  std::mutex watch_mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;  // guarded by watch_mutex_
  std::thread watcher_;
};

}  // namespace sullae::serve
