#include "launch/binding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "base/host.h"

namespace sullae {

std::vector<RankCpus> divide_cpus(const std::vector<int>& allowed, int available, int ranks,
                                  int cpus_per_rank) {
  const int cpus = std::min(available, static_cast<int>(allowed.size()));
  const int share = cpus_per_rank > 0 ? cpus_per_rank : std::max(1, cpus / ranks);
  std::vector<RankCpus> result(static_cast<std::size_t>(ranks), RankCpus{.threads = share});
  const bool has_quota = cpus < static_cast<int>(allowed.size());
  if (share * ranks > cpus || has_quota) return result;
  for (int r = 0; r < ranks; ++r) {
    const auto first = allowed.begin() + static_cast<std::ptrdiff_t>(r) * share;
    result[static_cast<std::size_t>(r)].cpus.assign(first, first + share);
  }
  return result;
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
  return std::min(static_cast<int>(cores.size()), available_cpus());
}

void use_all_cores() {
  ::setenv("OMP_NUM_THREADS", fmt::to_string(allowed_cores()).c_str(), /*overwrite=*/0);
}

}  // namespace sullae
