#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <thread>

#include "sullae/communicator.h"
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
    auto ends = world.process_set({world.size() - 1, 0});
    auto rest = world.process_set({1, 2});
    EXPECT_EQ(ends.has_value(), world.rank() == 0 || world.rank() == world.size() - 1);
    for (const auto* const set : {&ends, &rest}) {
      if (!*set) continue;
      EXPECT_EQ((*set)->size(), 2);
      const bool first = set == &ends ? world.rank() == 0 : world.rank() == 1;
      EXPECT_EQ((*set)->rank(), first ? 0 : 1);
      for (const std::size_t count : {std::size_t{0}, std::size_t{7}, std::size_t{70001}}) {
        std::vector<std::int64_t> values(count, world.rank() + 1);
        (*set)->allreduce(values.data(), values.data(), count, DataType::int64);
        const std::int64_t sum = set == &ends ? world.size() + 1 : 5;
        for (const auto value : values) ASSERT_EQ(value, sum);
        (*set)->broadcast(values.data(), count, DataType::int64, 1);
        (*set)->barrier();
      }
    }
    world.barrier();
  });
}

// Overlapping sets, used by several threads at once, with the same names.
TEST_P(ProcessSets, OverlapAndRunAtTheSameTime) {
  run([](World& world) {
    if (world.size() < 3) return;
    std::vector<std::optional<World>> sets;
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
    EXPECT_EQ(last.has_value(), world.rank() == world.size() - 1);
    int value = 5;
    if (last) last->allreduce(&value, &value, 1, DataType::int32);
    EXPECT_EQ(value, 5);
    same->allreduce(&value, &value, 1, DataType::int32);
    EXPECT_EQ(value, 5 * world.size());
  });
}

double reduced(const std::vector<int>& ranks, std::size_t index, DataType type, ReduceOp op) {
  std::vector<double> values;
  for (const int rank : ranks) values.push_back(value_at(rank, index, type));
  return expected(values, type, op);
}

// Blocking and asynchronous, of every type and reduction, in all ranks but the first.
TEST_P(ProcessSets, EveryReductionOfEveryType) {
  run([](World& world) {
    std::vector<int> ranks;
    for (int rank = 1; rank < world.size(); ++rank) ranks.push_back(rank);
    if (ranks.empty()) return;
    const auto set = world.process_set(ranks);
    if (!set) return;
    for (const DataType type : kAllTypes) {
      for (const ReduceOp op : kAllOps) {
        if (type == DataType::boolean && op == ReduceOp::average) continue;
        for (const std::size_t count : {0, 1, 7, 4099}) {
          const auto in = make_values(world.rank(), count, type);
          std::vector<std::byte> out(in.size());
          std::vector<std::byte> later(in.size());
          const auto handle =
              set->allreduce_async(in.data(), later.data(), count, type, op, {.name = "named"});
          set->allreduce(in.data(), out.data(), count, type, op);
          handle.wait();
          for (std::size_t i = 0; i < count; ++i) {
            const double want = reduced(ranks, i, type, op);
            ASSERT_EQ(load(out, i, type), want) << name(op) << " of " << name(type);
            ASSERT_EQ(load(later, i, type), want) << name(op) << " of " << name(type);
          }
        }
      }
    }
  });
}

TEST_P(ProcessSets, EveryCollectiveOfEveryType) {
  run([](World& world) {
    std::vector<int> ranks;
    for (int rank = 0; rank < world.size(); rank += 2) ranks.push_back(rank);
    const auto set = world.process_set(ranks);
    if (!set) return;
    const auto size = static_cast<std::size_t>(set->size());
    const auto me = static_cast<std::size_t>(set->rank());
    std::vector<std::size_t> counts;
    for (std::size_t i = 0; i < size; ++i) counts.push_back(i == 1 ? 0 : 997 + i);
    const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    for (const DataType type : kAllTypes) {
      const std::size_t width = element_size(type);
      const auto own = make_values(world.rank(), counts[me], type);
      std::vector<std::byte> all(total * width);
      set->allgatherv(own.data(), all.data(), counts, type);
      std::size_t at = 0;
      for (std::size_t r = 0; r < size; ++r) {
        for (std::size_t i = 0; i < counts[r]; ++i, ++at)
          ASSERT_EQ(load(all, at, type), value_at(ranks[r], i, type)) << name(type);
      }

      const auto whole = make_values(world.rank(), total, type);
      std::vector<std::byte> part(counts[me] * width);
      set->reducescatterv(whole.data(), part.data(), counts, type, ReduceOp::max);
      const std::size_t first =
          std::accumulate(counts.begin(), counts.begin() + set->rank(), std::size_t{0});
      for (std::size_t i = 0; i < counts[me]; ++i) {
        ASSERT_EQ(load(part, i, type), reduced(ranks, first + i, type, ReduceOp::max))
            << name(type);
      }

      const int last = set->size() - 1;
      std::vector<std::byte> at_root(total * width);
      set->reduce(whole.data(), at_root.data(), total, type, ReduceOp::min, last);
      for (std::size_t i = 0; set->rank() == last && i < total; ++i)
        ASSERT_EQ(load(at_root, i, type), reduced(ranks, i, type, ReduceOp::min)) << name(type);

      auto given = whole;
      set->broadcast(given.data(), total, type, last);
      for (std::size_t i = 0; i < total; ++i)
        ASSERT_EQ(load(given, i, type), value_at(ranks.back(), i, type)) << name(type);

      const auto sends = make_values(world.rank(), size * 7, type);
      std::vector<std::byte> receives(sends.size());
      set->alltoall(sends.data(), receives.data(), 7, type);
      for (std::size_t i = 0; i < size * 7; ++i) {
        ASSERT_EQ(load(receives, i, type), value_at(ranks[i / 7], me * 7 + i % 7, type))
            << name(type);
      }
    }
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

std::string error_of_allreduce(const World& in, const std::string& name) {
  return error_of([&] {
    float value = 1;
    in.allreduce_async(&value, &value, 1, DataType::float32, ReduceOp::sum, {.name = name}).wait();
  });
}

// Long before the stall limit, and without harm to what comes after.
TEST(ProcessSetErrors, OneNameInDifferentSetsIsToldToAllWhoUsedIt) {
  for (const std::string transport : {"shm", "ucx"}) {
    run_ranks({.size = 4, .transport = transport}, [](World& world) {
      auto left = world.process_set({0, 1, 2});
      auto right = world.process_set({1, 2, 3});
      // Rank 1 has mistaken one set for the other.
      World used = world.rank() == 3 || world.rank() == 1 ? *right : *left;
      const std::string error = error_of_allreduce(used, "x");
      EXPECT_TRUE(contains(error, "ranks disagree about the process set of 'x': rank ")) << error;
      EXPECT_TRUE(contains(error, "submitted it among ranks {0, 1, 2}, but rank ") ||
                  contains(error, "submitted it among ranks {1, 2, 3}, but rank "))
          << error;
      world.barrier();
      if (left) {
        EXPECT_EQ(error_of_allreduce(*left, "y"), "nothing was thrown");
      }
      if (right) {
        EXPECT_EQ(error_of_allreduce(*right, "z"), "nothing was thrown");
      }
      // The world itself is one of the sets.
      const std::string other = error_of_allreduce(left && world.rank() != 1 ? *left : world, "w");
      EXPECT_TRUE(contains(other, "ranks disagree about the process set of 'w'")) << other;
      EXPECT_TRUE(contains(other, "{0, 1, 2, 3}")) << other;
      world.barrier();
    });
  }
}

// Waiting is no error: a rank may be late in one set because of another.
TEST(ProcessSetErrors, ALateRankIsNone) {
  run_ranks({.size = 3}, [](World& world) {
    auto left = world.process_set({0, 1});
    auto right = world.process_set({1, 2});
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds{2500});
    for (const auto& set : {left, right}) {
      if (set) {
        EXPECT_EQ(error_of_allreduce(*set, "x"), "nothing was thrown");
      }
    }
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
    EXPECT_TRUE(contains(message, "rank 3") && contains(message, "left")) << message;
  });
}

}  // namespace
}  // namespace sullae::testing
