// What a process set costs before it is used, and how it starts.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "sullae/adapter.h"
#include "sullae/communicator.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/values.h"

namespace sullae::testing {
namespace {

class ProcessSetStarts : public ::testing::TestWithParam<Setting> {
 protected:
  void run(const std::function<void(World&)>& body) { run_ranks(GetParam().ranks, body); }
};

struct Held {
  std::size_t threads = 0;
  std::size_t mappings = 0;
};

// Of this process, in which all ranks are.
Held held() {
  Held now;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator("/proc/self/task"))
    ++now.threads;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) now.mappings += contains(line, "memfd:");
  return now;
}

TEST(ProcessSetCosts, NothingBeforeTheFirstUse) {
  constexpr int kSets = 64;
  std::vector<std::string> problems(8);
  run_ranks({.size = 8}, [&](World& world) {
    const auto look = [&] {
      world.barrier();
      const Held now = held();
      world.barrier();
      return now;
    };
    std::vector<World> sets;
    const Held before = look();
    for (int i = 0; i < kSets; ++i) {
      std::vector<int> members;
      for (int rank = 0; rank < 8; ++rank) {
        if (((i + 1) >> (rank % 6) & 1) != 0 || rank == i % 8) members.push_back(rank);
      }
      if (auto set = world.process_set(members)) sets.push_back(std::move(*set));
    }
    const Held after = look();
    EXPECT_EQ(after.threads, before.threads);
    EXPECT_EQ(after.mappings, before.mappings);
    // A blocking collective needs no thread either.
    for (const World& set : sets) {
      int value = 1;
      set.allreduce(&value, &value, 1, DataType::int32);
      EXPECT_EQ(value, set.size());
    }
    const Held used = look();
    EXPECT_EQ(used.threads, before.threads);
    EXPECT_GT(used.mappings, before.mappings);
  });
}

// One rank needs the set's engine; the others sleep in something else, or have left the world.
TEST_P(ProcessSetStarts, AreStartedByWhoeverUsesThemFirst) {
  run([](World& world) {
    if (world.size() < 3) return;
    std::vector<int> ranks;
    for (int rank = 1; rank < world.size(); ++rank) ranks.push_back(rank);
    const auto set = world.process_set(ranks);
    if (!set) return;  // rank 0 leaves the world, and the store with it
    if (set->rank() != 0) std::this_thread::sleep_for(std::chrono::milliseconds{300});
    std::int32_t value = 1;
    const auto sum = set->allreduce_async(&value, &value, 1, DataType::int32, ReduceOp::sum);
    sum.wait();
    EXPECT_EQ(value, set->size());
    EXPECT_EQ(set->join() >= 0, true);
    const auto memory = set->allocate_shared(1000);
    set->barrier();
  });
}

// Whoever waits for a rank that let go of the set unused is told.
TEST_P(ProcessSetStarts, ARankThatLeftOneUnusedIsNamed) {
  run([](World& world) {
    if (world.size() < 2) return;
    auto set = world.process_set({0, 1});
    auto other = world.process_set({0, 1});
    if (set && world.rank() == 1) set.reset();
    std::string message;
    if (set) {
      float value = 1;
      message = error_of([&] { set->allreduce(&value, &value, 1, DataType::float32); });
      EXPECT_TRUE(contains(message, "rank 1 has left the process set")) << message;
    }
    if (other && world.rank() == 1) other.reset();
    if (other) {
      float value = 1;
      message = error_of([&] {
        other->allreduce_async(&value, &value, 1, DataType::float32, ReduceOp::sum).wait();
      });
      EXPECT_TRUE(contains(message, "rank 1 has left the process set")) << message;
    }
    world.barrier();
  });
}

// So is one that waits for the first rank, which it has sent nothing.
TEST_P(ProcessSetStarts, TheFirstRankThatLeftOneUnusedIsNamed) {
  run([](World& world) {
    if (world.size() < 2) return;
    float value = 1;
    const std::vector<std::function<void(World&)>> uses = {
        [&](World& set) { set.allreduce(&value, &value, 1, DataType::float32); },
        [&](World& set) {
          set.allreduce_async(&value, &value, 1, DataType::float32, ReduceOp::sum).wait();
        },
        [&](World& set) { set.receive(&value, 1, DataType::float32, 0); },
        [&](World& set) {
          set.receive(&value, 1, DataType::float32, kAnySource);
        }};
    for (const auto& use : uses) {
      auto set = world.process_set({0, 1});
      if (world.rank() == 0) set.reset();
      if (!set) continue;
      const std::string message = error_of([&] { use(*set); });
      EXPECT_TRUE(contains(message, "rank 0 has left the process set")) << message;
    }
    world.barrier();
  });
}

// Leaving waits for the start of what has something to do.
TEST_P(ProcessSetStarts, WhatWasSubmittedIsCompletedBeforeLeaving) {
  run([](World& world) {
    std::vector<int> all(static_cast<std::size_t>(world.size()));
    std::iota(all.begin(), all.end(), 0);
    const auto set = world.process_set(all);
    std::int32_t value = 1;
    const auto sum = set->allreduce_async(&value, &value, 1, DataType::int32, ReduceOp::sum);
    set->leave();
    sum.wait();
    EXPECT_EQ(value, world.size());
    world.barrier();
  });
}

// Rank 0 serves the store, and takes it along.
TEST(ProcessSetStart, NeedsNoStore) {
  const std::string store = "unix:sullae-taken-along-" + std::to_string(::getpid());
  std::vector<std::string> errors(3);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      errors[static_cast<std::size_t>(rank)] = error_of([&] {
        const World world =
            World::create({.rank = rank, .size = 3, .store = store, .serve_store = rank == 0});
        const auto set = world.process_set({1, 2});
        if (!set) return;
        // Longer than a store waits for others to go.
        std::this_thread::sleep_for(std::chrono::seconds{6});
        std::int32_t value = 1;
        set->allreduce(&value, &value, 1, DataType::int32);
        EXPECT_EQ(value, 2);
      });
    });
  }
  for (auto& rank : ranks) rank.join();
  EXPECT_EQ(errors, std::vector<std::string>(3, "nothing was thrown"));
}

// The error of one rank reaches those that have never used the set's engine.
TEST_P(ProcessSetStarts, AFailureIsToldToAll) {
  run([](World& world) {
    if (world.size() < 2) return;
    std::vector<int> all(static_cast<std::size_t>(world.size()));
    std::iota(all.begin(), all.end(), 0);
    const auto set = world.process_set(all);
    const auto work = [&] {
      const auto submitted = AdapterView(*set).submit(
          [&](Communicator& communicator) {
            if (set->rank() == 0) throw Error("the disk is full");
            communicator.barrier();
          },
          {});
      submitted.wait();
    };
    std::string message = error_of(work);
    EXPECT_TRUE(contains(message, "the disk is full")) << message;
    world.barrier();
    // And where who has failed lets go of the set at once.
    auto other = world.process_set(all);
    message = error_of([&] {
      const auto gone = std::exchange(other, std::nullopt);
      AdapterView(*gone)
          .submit([&](Communicator& communicator) {
            if (gone->rank() == 0) throw Error("the disk is full");
            communicator.barrier();
          })
          .wait();
    });
    EXPECT_TRUE(contains(message, "the disk is full")) << message;
    world.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ProcessSetStarts, ::testing::ValuesIn(every_setting()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace sullae::testing
