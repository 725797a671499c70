// What a cluster gives: the time of each collective at each size.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "sullae/sullae.h"

namespace sullae {

struct BenchmarkOptions {
  std::string collective = "allreduce";
  /// As nccl-tests count them: the whole buffer of allreduce, broadcast and reduce, what all ranks
  /// gather in allgather, what all ranks are given in reducescatter, what one rank sends in
  /// alltoall. Rounded down to whole elements for each rank.
  std::vector<std::size_t> sizes;
  DataType type = DataType::float32;
  /// Buffers in the segment that the host's ranks share, where gradients live.
  bool in_bucket = false;
  /// Through the engine, as named asynchronous operations.
  bool async = false;
  /// Operations a measurement; zero takes as many as run for some 50 ms.
  int iterations = 0;
};

struct BenchmarkResult {
  std::size_t bytes = 0;
  double latency_us = 0;  ///< of one operation on the slowest rank: the median of five measurements
  double algbw_gbps = 0;  ///< bytes / time, 10^9 bytes a second
  double busbw_gbps = 0;  ///< what each link carries: comparable between collectives and sizes
  std::string backend;
};

/// The names that `BenchmarkOptions::collective` may have.
const std::vector<std::string>& benchmark_collectives();

/// Measures each size in turn; `on_result` is called on every rank as each is done. Collective.
/// Throws InputError for a collective that does not exist.
void run_benchmark(const World& world, const BenchmarkOptions& options,
                   const std::function<void(const BenchmarkResult&)>& on_result);

}  // namespace sullae
