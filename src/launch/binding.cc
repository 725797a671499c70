#include "launch/binding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

namespace sullae {

std::vector<RankCpus> divide_cpus(const std::vector<int>& available, int ranks, int cpus_per_rank) {
  const int cpus = static_cast<int>(available.size());
  const int share = cpus_per_rank > 0 ? cpus_per_rank : std::max(1, cpus / ranks);
  std::vector<RankCpus> result(static_cast<std::size_t>(ranks), RankCpus{.threads = share});
  if (share * ranks > cpus) return result;
  for (int r = 0; r < ranks; ++r) {
    const auto first = available.begin() + static_cast<std::ptrdiff_t>(r) * share;
    result[static_cast<std::size_t>(r)].cpus.assign(first, first + share);
  }
  return result;
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) cpus.push_back(i);
  }
  return cpus;
}

int allowed_cores() {
  std::set<std::string> cores;
  for (const int cpu : allowed_cpus()) {
    std::string siblings;
    std::ifstream(
        fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu)) >>
        siblings;
    cores.insert(siblings.empty() ? fmt::to_string(cpu) : siblings);
  }
  return static_cast<int>(cores.size());
}

void use_all_cores() {
  ::setenv("OMP_NUM_THREADS", fmt::to_string(allowed_cores()).c_str(), /*overwrite=*/0);
}

}  // namespace sullae
