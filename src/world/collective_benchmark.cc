#include "world/collective_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "collective/aligned_memory.h"

namespace sullae {
namespace {

constexpr int kRepeats = 5;
constexpr double kTargetSeconds = 0.05;

struct Buffers {
  std::byte* in = nullptr;
  std::byte* out = nullptr;
};

// One collective: how it is called with `count` elements in all, and what share of the bytes each
// link carries.
struct Kind {
  const char* name;
  Handle (*start)(const World&, const Buffers&, std::size_t count, DataType, const AsyncOptions&);
  void (*call)(const World&, const Buffers&, std::size_t count, DataType);
  double (*bus_factor)(double ranks);
};

double whole(double) { return 1; }
double all_but_own(double ranks) { return (ranks - 1) / ranks; }
double there_and_back(double ranks) { return 2 * (ranks - 1) / ranks; }

std::vector<std::size_t> equal_parts(const World& world, std::size_t count) {
  const auto ranks = static_cast<std::size_t>(world.size());
  return std::vector<std::size_t>(ranks, count / ranks);
}

const std::array kKinds = {
    Kind{"allreduce",
         [](const World& w, const Buffers& b, std::size_t n, DataType t, const AsyncOptions& o) {
           return w.allreduce_async(b.in, b.in, n, t, ReduceOp::sum, o);
         },
         [](const World& w, const Buffers& b, std::size_t n, DataType t) {
           w.allreduce(b.in, b.in, n, t);
         },
         there_and_back},
    Kind{"allgather",
         [](const World& w, const Buffers& b, std::size_t n, DataType t, const AsyncOptions& o) {
           return w.allgatherv_async(b.in, b.out, equal_parts(w, n), t, o);
         },
         [](const World& w, const Buffers& b, std::size_t n, DataType t) {
           w.allgatherv(b.in, b.out, equal_parts(w, n), t);
         },
         all_but_own},
    Kind{"reducescatter",
         [](const World& w, const Buffers& b, std::size_t n, DataType t, const AsyncOptions& o) {
           return w.reducescatterv_async(b.in, b.out, equal_parts(w, n), t, ReduceOp::sum, o);
         },
         [](const World& w, const Buffers& b, std::size_t n, DataType t) {
           w.reducescatterv(b.in, b.out, equal_parts(w, n), t);
         },
         all_but_own},
    Kind{"broadcast",
         [](const World& w, const Buffers& b, std::size_t n, DataType t, const AsyncOptions& o) {
           return w.broadcast_async(b.in, n, t, 0, o);
         },
         [](const World& w, const Buffers& b, std::size_t n, DataType t) {
           w.broadcast(b.in, n, t, 0);
         },
         whole},
    Kind{"reduce",
         [](const World& w, const Buffers& b, std::size_t n, DataType t, const AsyncOptions& o) {
           return w.reduce_async(b.in, b.out, n, t, ReduceOp::sum, 0, o);
         },
         [](const World& w, const Buffers& b, std::size_t n, DataType t) {
           w.reduce(b.in, b.out, n, t, ReduceOp::sum, 0);
         },
         whole},
    Kind{"alltoall",
         [](const World& w, const Buffers& b, std::size_t n, DataType t, const AsyncOptions& o) {
           const auto parts = equal_parts(w, n);
           return w.alltoallv_async(b.in, parts, b.out, parts, t, o);
         },
         [](const World& w, const Buffers& b, std::size_t n, DataType t) {
           const auto parts = equal_parts(w, n);
           w.alltoallv(b.in, parts, b.out, parts, t);
         },
         all_but_own},
    Kind{"barrier",
         [](const World& w, const Buffers&, std::size_t, DataType, const AsyncOptions& o) {
           return w.barrier_async(o);
         },
         [](const World& w, const Buffers&, std::size_t, DataType) { w.barrier(); }, whole},
};

const Kind& find_kind(const std::string& name) {
  const auto found = std::ranges::find(kKinds, name, &Kind::name);
  if (found == kKinds.end()) {
    throw InputError(fmt::format("'{}' is no collective: expected one of {}", name,
                                 fmt::join(benchmark_collectives(), ", ")));
  }
  return *found;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The slowest rank's.
double slowest(const World& world, double seconds) {
  world.allreduce(&seconds, &seconds, 1, DataType::float64, ReduceOp::max);
  return seconds;
}

}  // namespace

const std::vector<std::string>& benchmark_collectives() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Kind& kind : kKinds) all.emplace_back(kind.name);
    return all;
  }();
  return names;
}

void run_benchmark(const World& world, const BenchmarkOptions& options,
                   const std::function<void(const BenchmarkResult&)>& on_result) {
  const Kind& kind = find_kind(options.collective);
  if (options.sizes.empty()) throw InputError("benchmark: no sizes: expected one or more");
  const std::size_t width = element_size(options.type);
  const auto ranks = static_cast<std::size_t>(world.size());
  const std::size_t most = std::max<std::size_t>(64, std::ranges::max(options.sizes));
  const auto allocate = [&] {
    return options.in_bucket ? world.allocate_shared(most) : allocate_aligned(most);
  };
  const auto in = allocate();
  const auto out = allocate();
  const Buffers buffers{in.get(), out.get()};
  // Zeros: whatever is reduced how often, no value becomes denormal, infinite or slow.
  std::fill_n(buffers.in, most, std::byte{0});
  std::fill_n(buffers.out, most, std::byte{0});
  const AsyncOptions name{.name = "benchmark"};
  for (const std::size_t size : options.sizes) {
    const std::size_t count = size / width / ranks * ranks +
                              (size / width % ranks) * (kind.bus_factor == all_but_own ? 0 : 1);
    const auto once = [&] {
      if (options.async) {
        kind.start(world, buffers, count, options.type, name).wait();
      } else {
        kind.call(world, buffers, count, options.type);
      }
    };
    const auto measure = [&](int iterations) {
      world.barrier();
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < iterations; ++i) once();
      return slowest(world, seconds_since(start)) / iterations;
    };
    measure(2);  // connections, pages and caches
    int iterations = options.iterations;
    if (iterations == 0)
      iterations = static_cast<int>(std::clamp(kTargetSeconds / measure(3), 3.0, 20000.0));
    std::array<double, kRepeats> seconds{};
    for (double& one : seconds) one = measure(iterations);
    std::ranges::sort(seconds);
    const double time = seconds[kRepeats / 2];
    const std::size_t bytes = count * width;
    const double algbw = static_cast<double>(bytes) / time / 1e9;
    on_result({.bytes = bytes,
               .latency_us = time * 1e6,
               .algbw_gbps = algbw,
               .busbw_gbps = algbw * kind.bus_factor(static_cast<double>(ranks)),
               .backend = world.backend()});
  }
}

}  // namespace sullae
