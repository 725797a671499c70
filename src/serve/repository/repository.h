// The model repository: a folder a model, watched for new versions.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "repository/mirror.h"
#include "serve/repository/served_model.h"

namespace sullae::serve {

struct RepositoryOptions {
  std::filesystem::path directory;
  /// Where `directory` is a copy: of what.
  std::filesystem::path remote = {};
  /// Between looks at the folders.
  std::chrono::milliseconds poll{1000};
};

/// Any thread may call it. A thread of its own loads and frees versions, one after the other; what
/// operators ask for does not wait for other models'.
class Repository {
 public:
  /// Throws InputError where there is no such folder, and where another server serves it.
  explicit Repository(const RepositoryOptions& options);
  ~Repository();
  Repository(const Repository&) = delete;
  Repository& operator=(const Repository&) = delete;

  /// Looks for the first time, and returns when every model that can be loaded is. Then watches.
  /// Throws NoRepository where what is to be copied is none, and Error where a store of which there
  /// is no copy yet does not answer.
  void start();
  /// Looks no more. What is loaded answers on.
  void stop();
  /// Whether start() has ended and, where there are models, one of them answers: a model that does
  /// not is none of the others' business, and says so of itself.
  bool ready() const;
  /// Called after each look at the folders, and before start(). In the repository's thread.
  void on_look(std::function<void()> call) { on_look_ = std::move(call); }

  /// The version that a request goes to. Throws RequestError (not_found, unavailable).
  std::shared_ptr<Version> choose(const std::string& model, const std::string& version) const;
  /// The same for those who only look: they take no turn of the canary's share.
  std::shared_ptr<Version> look_up(const std::string& model, const std::string& version) const;
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
  std::shared_ptr<Version> find_version(const std::string& model, const std::string& version,
                                        ServedModel::Turn turn) const;
  void update_copy();
  void find_models();
  bool knows(const std::string& model) const;
  void forget(const std::shared_ptr<ServedModel>& model);
  void update(ServedModel& model, bool at_once = false);
  void free_unused();
  void check_stop() const;
  void watch();

  RepositoryOptions options_;
  mutable std::shared_mutex mutex_;
  std::map<std::string, std::shared_ptr<ServedModel>> models_;  // guarded by mutex_
  bool has_looked_ = false;                                     // for them; guarded by mutex_
  std::atomic<bool> started_ = false;

  std::mutex retired_mutex_;
  std::vector<std::shared_ptr<Version>> retired_;  // guarded by retired_mutex_
  std::mutex find_mutex_;                          // one look at the folders at a time
  std::optional<repository::Mirror> mirror_;       // guarded by find_mutex_
  std::string copy_problem_;                       // guarded by find_mutex_
  std::set<std::string> refused_;                  // links that lead out; guarded by find_mutex_
  UniqueFd lock_;                                  // of the folder: one server a repository
  std::function<void()> on_look_;

  std::mutex watch_mutex_;
  std::condition_variable stop_;
  std::atomic<bool> stopping_ = false;  // set with watch_mutex_ held
  std::thread watcher_;
};

}  // namespace sullae::serve
