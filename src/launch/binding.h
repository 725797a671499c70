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

/// Divides the `allowed` processors, of which `available` may be used at a time, among `ranks`
/// ranks in order: `cpus_per_rank` each, or an equal share where that is 0. With fewer processors
/// than ranks need, nobody is bound, since the scheduler shares better than a fixed division; nor
/// where a quota keeps some free, which other containers may be bound to.
std::vector<RankCpus> divide_cpus(const std::vector<int>& allowed, int available, int ranks,
                                  int cpus_per_rank);

/// Of how many cores this process may use the processors: hyperthreads of one core count once, and
/// a container's quota counts.
int allowed_cores();

/// For the program that this process becomes, and that computes by itself: libtorch 1 takes half of
/// any x86 host's processors for hyperthreads, and leaves them alone, also where each is a core, as
/// on most virtual machines. Sets OMP_NUM_THREADS to allowed_cores(), unless the user has set it.
void use_all_cores();

}  // namespace sullae
