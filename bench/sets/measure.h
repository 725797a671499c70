// How both programs of this benchmark measure: 64 groups of the ranks, all different where there
// are ranks enough. Lines "what microseconds": to make a group, and the first barrier in one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

namespace bench {

inline std::vector<int> members(int group, int ranks) {
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank)
    if ((((group + 1) >> (rank % 6)) & 1) != 0 || rank == group % ranks) members.push_back(rank);
  return members;
}

inline double microseconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

/// `make(members)` keeps the group; `use()` is the first barrier in a group of all.
inline void run(int rank, int ranks, const std::function<void()>& barrier,
                const std::function<void(const std::vector<int>&)>& make,
                const std::function<void()>& use) {
  constexpr int kGroups = 64;
  barrier();
  const double making = microseconds([&] {
    for (int group = 0; group < kGroups; ++group) make(members(group, ranks));
    barrier();
  });
  const double first = microseconds(use);
  if (rank == 0) std::printf("make %.3f\nfirst %.3f\n", making / kGroups, first);
}

}  // namespace bench
