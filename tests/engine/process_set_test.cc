#include <gtest/gtest.h>

#include <thread>

#include "support/errors.h"
#include "support/ranks.h"
#include "support/values.h"

namespace sullae::testing {
namespace {

class ProcessSets : public ::testing::TestWithParam<Setting> {
 protected:
  void run(const std::function<void(World&)>& body) { run_ranks(GetParam().ranks, body); }
};

TEST_P(ProcessSets, NumberTheirRanksAnewAndComputeAmongThemselves) {
  run([](World& world) {
    if (world.size() < 3) return;
    const auto ends = world.process_set({world.size() - 1, 0});
    const auto rest = world.process_set({1, 2});
    EXPECT_EQ(ends != nullptr, world.rank() == 0 || world.rank() == world.size() - 1);
    for (World* const set : {ends.get(), rest.get()}) {
      if (set == nullptr) continue;
      EXPECT_EQ(set->size(), 2);
      const bool first = set == ends.get() ? world.rank() == 0 : world.rank() == 1;
      EXPECT_EQ(set->rank(), first ? 0 : 1);
      for (const std::size_t count : {std::size_t{0}, std::size_t{7}, std::size_t{70001}}) {
        std::vector<std::int64_t> values(count, world.rank() + 1);
        set->allreduce(values.data(), values.data(), count, DataType::int64);
        const std::int64_t sum = set == ends.get() ? world.size() + 1 : 5;
        for (const auto value : values) ASSERT_EQ(value, sum);
        set->broadcast(values.data(), count, DataType::int64, 1);
        set->barrier();
      }
    }
    world.barrier();
  });
}

// Overlapping sets, used by several threads at once, with the same names.
TEST_P(ProcessSets, OverlapAndRunAtTheSameTime) {
  run([](World& world) {
    if (world.size() < 3) return;
    std::vector<std::unique_ptr<World>> sets;
    for (int i = 0; i < 3; ++i) sets.push_back(world.process_set({i, (i + 1) % 3}));
    std::vector<std::thread> threads;
    for (const auto& set : sets) {
      if (!set) continue;
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i) {
          std::vector<float> values(static_cast<std::size_t>(i * 37), 1.0F);
          const auto handle =
              set->allreduce_async(values.data(), values.data(), values.size(), DataType::float32,
                                   ReduceOp::sum, {.name = "x" + std::to_string(i % 5)});
          int value = 1;
          set->allreduce(&value, &value, 1, DataType::int32);
          handle.wait();
          EXPECT_EQ(value, 2);
          for (const auto v : values) ASSERT_EQ(v, 2.0F);
        }
      });
    }
    for (auto& thread : threads) thread.join();
    world.barrier();
  });
}

TEST_P(ProcessSets, MayBeMadeOfProcessSetsAndHaveOneRank) {
  run([](World& world) {
    std::vector<int> all;
    for (int rank = 0; rank < world.size(); ++rank) all.push_back(rank);
    const auto same = world.process_set(all);
    ASSERT_TRUE(same);
    const auto last = same->process_set({world.size() - 1});
    EXPECT_EQ(last != nullptr, world.rank() == world.size() - 1);
    int value = 5;
    if (last) last->allreduce(&value, &value, 1, DataType::int32);
    EXPECT_EQ(value, 5);
    same->allreduce(&value, &value, 1, DataType::int32);
    EXPECT_EQ(value, 5 * world.size());
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ProcessSets, ::testing::ValuesIn(every_setting()),
                         [](const auto& test) { return test.param.name; });

TEST(ProcessSetErrors, RanksMustExistAndBeDifferent) {
  run_ranks({.size = 2}, [](World& world) {
    for (const std::vector<int>& ranks :
         {std::vector<int>{}, std::vector<int>{0, 0}, std::vector<int>{2}, std::vector<int>{-1}}) {
      const auto message = error_of([&] { world.process_set(ranks); });
      EXPECT_TRUE(contains(message, "expected different ranks between 0 and 1")) << message;
    }
  });
}

TEST(ProcessSetErrors, DisagreementIsToldToEveryRank) {
  run_ranks({.size = 3}, [](World& world) {
    const auto message = error_of([&] {
      world.process_set(world.rank() == 1 ? std::vector<int>{0, 1} : std::vector<int>{0, 2});
    });
    EXPECT_TRUE(contains(message, "ranks disagree about the process set")) << message;
    EXPECT_TRUE(contains(message, "{0, 1}")) << message;
    EXPECT_TRUE(contains(message, "{0, 2}")) << message;
    world.barrier();
  });
}

TEST(ProcessSetErrors, NameRanksAsTheWorldDoes) {
  run_ranks({.size = 4}, [](World& world) {
    const auto set = world.process_set({1, 3});
    if (!set) return;
    if (world.rank() == 3) return;
    float value = 1;
    const auto message = error_of([&] {
      set->allreduce_async(&value, &value, 1, DataType::float32, ReduceOp::sum, {.name = "x"})
          .wait();
    });
    EXPECT_EQ(message, "rank 3 has left the world");
  });
}

}  // namespace
}  // namespace sullae::testing
