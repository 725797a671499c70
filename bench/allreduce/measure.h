// How every program of this benchmark measures: float32 sums, sizes from the command line, a
// barrier before each run of operations, and the time of one operation on rank 0 as a line "bytes
// microseconds".
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace bench {

struct Peer {
  int rank = 0;
  int size = 1;
  /// Memory for the largest size.
  float* buffer = nullptr;
  std::function<void()> barrier;
  std::function<void(float* data, std::size_t count)> allreduce;
};

/// As many operations as take some 40 ms; the ranks agree through an allreduce of what each
/// measured.
inline int choose_iterations(const Peer& peer, std::size_t count) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) peer.allreduce(peer.buffer, count);
  const std::chrono::duration<float> time = std::chrono::steady_clock::now() - start;
  peer.buffer[0] = time.count() / 3;
  peer.allreduce(peer.buffer, 1);
  return std::clamp(static_cast<int>(0.04F * static_cast<float>(peer.size) / peer.buffer[0]), 3,
                    20000);
}

inline void run(const Peer& peer, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const auto bytes = static_cast<std::size_t>(std::atoll(argv[i]));
    const std::size_t count = bytes / sizeof(float);
    std::fill(peer.buffer, peer.buffer + count, 1e-30F);
    peer.allreduce(peer.buffer, count);
    peer.allreduce(peer.buffer, count);
    const int iterations = choose_iterations(peer, count);
    std::vector<double> runs;
    for (int repeat = 0; repeat < 5; ++repeat) {
      std::fill(peer.buffer, peer.buffer + count, 1e-30F);
      peer.barrier();
      const auto start = std::chrono::steady_clock::now();
      for (int k = 0; k < iterations; ++k) peer.allreduce(peer.buffer, count);
      const std::chrono::duration<double, std::micro> time =
          std::chrono::steady_clock::now() - start;
      runs.push_back(time.count() / iterations);
    }
    std::sort(runs.begin(), runs.end());
    if (peer.rank == 0) {
      std::printf("%zu %.3f\n", bytes, runs[runs.size() / 2]);
      std::fflush(stdout);
    }
  }
}

inline std::size_t largest_count(int argc, char** argv) {
  std::size_t most = 1;
  for (int i = 1; i < argc; ++i)
    most = std::max(most, static_cast<std::size_t>(std::atoll(argv[i])) / sizeof(float));
  return most;
}

}  // namespace bench
