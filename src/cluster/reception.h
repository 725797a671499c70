// The port at which workers of a job come to its launcher.
#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"

namespace sullae::cluster {

/// Takes connections at a free port of all addresses, and waits for nobody's first line. One thread
/// uses it.
class Reception {
 public:
  /// Whoever has said its line, which has its end.
  struct Caller {
    UniqueFd socket;
    std::string line;
  };

  Reception();
  int port() const;

  /// Adds what to poll for.
  void poll_for(std::vector<pollfd>& polled) const;
  /// Callers since, of what was found by poll(): poll_for() has added those from `first` on. Who
  /// says nothing for 10 s is hung up on.
  std::vector<Caller> turn(const std::vector<pollfd>& polled, std::size_t first);

 private:
  /// It has not said yet who it is.
  struct Stranger {
    Caller caller;
    Deadline deadline;
  };
  void take();
  static void hear(Caller& stranger);

  UniqueFd listener_;
  std::vector<Stranger> strangers_;
};

}  // namespace sullae::cluster
