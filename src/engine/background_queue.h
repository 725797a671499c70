// Runs operations one after another in a thread of its own.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/completion.h"

namespace sullae {

class BackgroundQueue {
 public:
  /// `rank` tags the thread's log lines.
  explicit BackgroundQueue(int rank);
  ~BackgroundQueue();
  BackgroundQueue(const BackgroundQueue&) = delete;
  BackgroundQueue& operator=(const BackgroundQueue&) = delete;

  /// Runs what was submitted, then ends. What is submitted later fails.
  void stop();
  /// Any thread may call. `completion` finishes when `operation` has returned or thrown.
  void submit(std::function<void()> operation, std::shared_ptr<Completion> completion);
  /// The same, and waits: in the calling thread, where nothing comes before it. Rethrows what it throws.
  void run(std::function<void()> operation);

 private:
  struct Entry {
    std::function<void()> operation;
    std::shared_ptr<Completion> completion;
  };
  void work();
  void end_turn();

  std::mutex stopping_;  // one call of stop() at a time
  std::mutex mutex_;     // guards the three below
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  bool busy_ = false;  // an operation runs
  bool ending_ = false;

  std::thread thread_;
};

}  // namespace sullae
