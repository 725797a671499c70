// Takes samples from many clients at once and writes what waits together in one transaction: a disk
// takes few transactions a second, and clients' threads must not wait for it.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "online/example_store.h"

namespace sullae::online {

/// Any thread may call it.
class ExampleWriter {
 public:
  /// Called once, in the writer's thread, when the samples are on the disk, or with why they are
  /// not.
  using Done = std::function<void(StoreResult, std::exception_ptr)>;

  /// `store` must outlive this object.
  explicit ExampleWriter(ExampleStore& store);
  /// Writes what waits still, and ends.
  ~ExampleWriter();
  ExampleWriter(const ExampleWriter&) = delete;
  ExampleWriter& operator=(const ExampleWriter&) = delete;

  /// Throws RequestError (overloaded) where too many wait already.
  void put(std::vector<Example> examples, std::string author, Done done);

 private:
  struct Work {
    ExampleChange change;
    Done done;
  };
  void write();

  ExampleStore& store_;
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<Work> queue_;  // guarded by mutex_
  bool ending_ = false;     // guarded by mutex_
  std::thread thread_;
};

}  // namespace sullae::online
