// `sullae online` beside the server, as a process of its own: what happens to it, the server goes
// on answering.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace sullae::cli {

/// Used by the thread that made it, which must live as long as the process does.
class OnlineProcess {
 public:
  /// Starts it. It gets no more of the processors than the server leaves.
  OnlineProcess(const std::string& repository, int ranks);
  /// Ends it and waits for it.
  ~OnlineProcess();
  OnlineProcess(const OnlineProcess&) = delete;
  OnlineProcess& operator=(const OnlineProcess&) = delete;

  /// Starts it again where it has ended, after a while that grows. To be called about once a
  /// second.
  void watch();

 private:
  using Clock = std::chrono::steady_clock;
  void start();
  void reap(int status);

  std::vector<std::string> words_;
  pid_t pid_ = 0;  // 0: it has ended
  Clock::time_point started_;
  Clock::time_point restart_;
  std::chrono::seconds pause_{1};
};

}  // namespace sullae::cli
