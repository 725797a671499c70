// Which processors each rank of a host gets.
#pragma once

#include <sched.h>

#include <vector>

namespace sullae {

struct RankCpus {
  /// Processors to bind to; empty leaves the rank unbound.
  std::vector<int> cpus;
  /// Threads that the rank should compute with, at least 1.
  int threads = 1;
};

/// Divides `available` among `ranks` ranks in order: `cpus_per_rank` each, or an equal share where
/// that is 0. With fewer processors than ranks need, nobody is bound, since the scheduler shares
/// better than a fixed division.
std::vector<RankCpus> divide_cpus(const std::vector<int>& available, int ranks, int cpus_per_rank);

/// The processors that this process may run on.
std::vector<int> allowed_cpus();

}  // namespace sullae
