// The end of a job's time, seen a little before the engine's, so that its launcher can say that and
// go on later.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/deadline.h"
#include "cluster/engine.h"
#include "cluster/job_folder.h"

namespace sullae::cluster {

/// A thread of its own calls `on_reached` once, when the engine's time limit or the job's deadline
/// is near.
class TimeLimit {
 public:
  enum class Kind { none, time, deadline };

  TimeLimit(Engine& engine, const JobFolder& folder, const std::string& engine_id, const Job& job,
            std::function<void()> on_reached);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  Kind reached() const { return reached_; }

 private:
  void run();

  std::function<void()> on_reached_;
  Kind kind_ = Kind::none;
  std::optional<Clock::time_point> at_;
  std::atomic<Kind> reached_{Kind::none};
  std::mutex mutex_;  // guards the next
  bool stopped_ = false;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace sullae::cluster
