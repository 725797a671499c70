// Named operations in an order of its own on every rank, from two threads, with caches that hold
// one, a few or most of the names.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <thread>

#include "support/ranks.h"

namespace sullae::testing {
namespace {

using Clock = std::chrono::steady_clock;

struct Torture {
  std::string transport;
  int ranks;
  int capacity;
  int names;
};

void PrintTo(const Torture& torture, std::ostream* out) {
  *out << torture.transport << ' ' << torture.ranks << " ranks, " << torture.capacity << " of "
       << torture.names << " names";
}

std::vector<Torture> tortures() {
  std::vector<Torture> all;
  for (const char* transport : {"shm", "ucx"}) {
    for (const int ranks : {2, 3, 5}) {
      for (const int capacity : {1, 3}) all.push_back({transport, ranks, capacity, 8});
    }
    all.push_back({transport, 2, 1024, 1100});
    all.push_back({transport, 4, 1024, 1100});
  }
  return all;
}

// A minute each with SULLAE_TORTURE_SECONDS=60.
std::chrono::milliseconds duration() {
  const char* const seconds = std::getenv("SULLAE_TORTURE_SECONDS");
  return std::chrono::milliseconds{seconds != nullptr ? 1000 * std::atoi(seconds) : 300};
}

// One thread's share of the names, every round in another order and with other sizes.
void submit_rounds(World& world, const std::vector<int>& names, unsigned seed, int rounds) {
  std::mt19937 random(seed * 101 + static_cast<unsigned>(world.rank()));
  std::vector<int> order = names;
  for (int round = 0; round < rounds; ++round) {
    std::ranges::shuffle(order, random);
    std::vector<std::vector<int>> values(names.size());
    std::vector<Handle> handles;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const int name = order[i];
      // All ranks draw the same size, a new one now and then.
      values[i].assign(static_cast<std::size_t>(1 + (name * 7 + round / 3 * 5) % 50), name + round);
      handles.push_back(world.allreduce_async(values[i].data(), values[i].data(), values[i].size(),
                                              DataType::int32, ReduceOp::sum,
                                              {.name = "t" + std::to_string(name)}));
      if (random() % 4 == 0) std::this_thread::yield();
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      handles[i].wait();
      for (const int value : values[i]) ASSERT_EQ(value, (order[i] + round) * world.size());
    }
  }
}

class NamedOperations : public ::testing::TestWithParam<Torture> {};
INSTANTIATE_TEST_SUITE_P(Torture, NamedOperations, ::testing::ValuesIn(tortures()),
                         [](const auto& test) {
                           return test.param.transport + "_" + std::to_string(test.param.ranks) +
                                  "_" + std::to_string(test.param.capacity) + "_of_" +
                                  std::to_string(test.param.names);
                         });

TEST_P(NamedOperations, EndInAnyOrder) {
  const Torture& torture = GetParam();
  ::setenv("SULLAE_CACHE_CAPACITY", std::to_string(torture.capacity).c_str(), 1);
  run_ranks({.size = torture.ranks, .transport = torture.transport}, [&](World& world) {
    const auto end = Clock::now() + duration();
    for (unsigned seed = 0;; ++seed) {
      std::vector<std::thread> threads;
      for (int half = 0; half < 2; ++half) {
        threads.emplace_back([&world, &torture, seed, half] {
          std::vector<int> names;
          for (int name = half; name < torture.names; name += 2) names.push_back(name);
          submit_rounds(world, names, seed, torture.names > 100 ? 2 : 10);
        });
      }
      for (auto& thread : threads) thread.join();
      int going_on = Clock::now() < end ? 1 : 0;
      world.broadcast(&going_on, 1, DataType::int32, 0);
      if (going_on == 0) break;
    }
  });
  ::unsetenv("SULLAE_CACHE_CAPACITY");
}

}  // namespace
}  // namespace sullae::testing
