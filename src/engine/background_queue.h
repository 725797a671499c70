// Runs operations one after another, in a thread of its own or in that of who waits for them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/completion.h"
#include "engine/prompt_waits.h"

namespace sullae {

class BackgroundQueue final : public Worker, public std::enable_shared_from_this<BackgroundQueue> {
 public:
  /// `rank` tags the thread's log lines.
  explicit BackgroundQueue(int rank);
  ~BackgroundQueue() override;
  BackgroundQueue(const BackgroundQueue&) = delete;
  BackgroundQueue& operator=(const BackgroundQueue&) = delete;

  /// Runs what was submitted, then ends. What is submitted later fails.
  void stop();
  /// Any thread may call. `completion` finishes when `operation` has returned or thrown.
  void submit(std::function<void()> operation, std::shared_ptr<Completion> completion);
  /// The same, and waits: in the calling thread, where nothing comes before it. Rethrows what it
  /// throws. Where an interruption ends the wait before it has begun it never runs, and `withdrawn`
  /// is called: others may wait for it.
  void run(std::function<void()> operation, const std::function<void()>& withdrawn = {});
  /// Runs what is to run before `completion`'s operation, and that, as long as none runs elsewhere.
  void work_for(const Completion& completion, Clock::time_point until) override;

 private:
  struct Entry {
    std::function<void()> operation;
    std::shared_ptr<Completion> completion;
  };
  void work();
  bool await_entry(std::unique_lock<std::mutex>& lock);
  bool withdraw(const Completion& completion);
  // With mutex_ held; the caller has the turn.
  Entry take();
  void perform(Entry& entry);
  void end_turn();

  std::mutex stopping_;  // one call of stop() at a time
  std::mutex mutex_;     // guards all below but the thread
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  bool busy_ = false;  // an operation runs
  bool ending_ = false;
  PromptWaits prompt_waits_;
  int working_ = 0;  // threads in work_for()

  std::thread thread_;
};

}  // namespace sullae
