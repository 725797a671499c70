// Threads that begin and end together.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "sullae/error.h"

namespace sullae {

/// The last member of who has it: the threads end before what they use, also where not all of them
/// could be started.
class ThreadGroup {
 public:
  /// `end` has the threads come to their end; called at most once before they are waited for.
  explicit ThreadGroup(std::function<void()> end) : end_(std::move(end)) {}
  ~ThreadGroup() { stop(); }
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  /// Throws Error where there may be no more threads.
  template <class Work>
  void start(Work work) {
    try {
      threads_.emplace_back(std::move(work));
    } catch (const std::system_error& error) {
      throw Error(fmt::format("a thread cannot be started: {}", error.what()));
    }
  }
  bool empty() const { return threads_.empty(); }
  /// Ends and joins them. One that calls this itself goes on by itself.
  void stop() {
    if (threads_.empty()) return;
    end_();
    for (std::thread& thread : threads_) {
      if (thread.get_id() == std::this_thread::get_id()) {
        thread.detach();
      } else {
        thread.join();
      }
    }
    threads_.clear();
  }

 private:
  std::function<void()> end_;
  std::vector<std::thread> threads_;
};

}  // namespace sullae
