// How many workers an elastic job asks its engine for, and which it lets go: decisions alone, so
// that every case can be tried.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cluster/engine.h"
#include "cluster/job_folder.h"

namespace sullae::cluster {

/// Of one attempt. Used by one thread.
class WorkerPlan {
 public:
  explicit WorkerPlan(int submission) : submission_(submission) {}

  /// The engine has been asked for a job of so many nodes.
  void asked(const std::string& id, int nodes) { asked_[id] = nodes; }
  /// A worker of that job has connected.
  void admitted(const std::string& id);
  /// Nothing is expected of that job any more.
  void let_go(const std::string& id) { let_go_.insert(id); }

  struct Decision {
    std::vector<int> ask;             ///< for jobs of so many nodes
    std::vector<std::string> cancel;  ///< of the engine's jobs
    int release = 0;                  ///< so many workers, the youngest first
    std::vector<EngineJob> ended;     ///< since the last time, of those that were not let go
  };
  /// `jobs`: what the engine has of our job; `present`: workers that are connected, by the engine's
  /// job.
  Decision decide(const std::vector<EngineJob>& jobs, const std::map<std::string, int>& present,
                  const Size& size);

  /// The engine has said that it is over, or does not have it.
  bool is_over(const std::string& id) const { return ended_.contains(id) || !asked_.contains(id); }
  /// Jobs in a row that ended by themselves before anybody had connected.
  int fruitless() const { return fruitless_; }

 private:
  int submission_;
  std::map<std::string, int> asked_;     // nodes by the engine's job
  std::map<std::string, int> admitted_;  // workers that have ever connected
  std::set<std::string> let_go_;
  std::set<std::string> ended_;
  int fruitless_ = 0;
};

}  // namespace sullae::cluster
