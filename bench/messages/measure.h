// How both programs of this benchmark measure: ranks 0 and 1 send a message to and fro, sizes from
// the command line. A line "bytes microseconds" is half of a round trip, the median of several
// runs.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

namespace bench {

struct Peer {
  int rank = 0;
  std::function<void(const void* data, std::size_t bytes, int to)> send;
  std::function<void(void* data, std::size_t bytes, int from)> receive;
};

inline double half_round_trip(const Peer& peer, std::vector<char>& out, std::vector<char>& in,
                              std::size_t bytes, int rounds) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i) {
    if (peer.rank == 0) {
      peer.send(out.data(), bytes, 1);
      peer.receive(in.data(), bytes, 1);
    } else {
      peer.receive(in.data(), bytes, 0);
      peer.send(out.data(), bytes, 0);
    }
  }
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
  return time.count() / rounds / 2;
}

inline void run(const Peer& peer, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const auto bytes = static_cast<std::size_t>(std::atoll(argv[i]));
    std::vector<char> out(bytes + 1, 'x');
    std::vector<char> in(bytes + 1, 'y');
    const double first = half_round_trip(peer, out, in, bytes, 5);
    int rounds = std::clamp(static_cast<int>(20000 / first), 3, 20000);
    // Rank 1 does as rank 0 does.
    if (peer.rank == 0) {
      peer.send(&rounds, sizeof rounds, 1);
    } else {
      peer.receive(&rounds, sizeof rounds, 0);
    }
    std::vector<double> runs;
    for (int repeat = 0; repeat < 7; ++repeat)
      runs.push_back(half_round_trip(peer, out, in, bytes, rounds));
    std::sort(runs.begin(), runs.end());
    if (std::memcmp(in.data(), out.data(), bytes) != 0) std::abort();
    if (peer.rank == 0) {
      std::printf("%zu %.4f\n", bytes, runs[runs.size() / 2]);
      std::fflush(stdout);
    }
  }
}

}  // namespace bench
