// Named operations from any thread in any order, over every transport.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

#include "support/errors.h"
#include "support/ranks.h"
#include "support/values.h"
#include "support/variable.h"

namespace sullae::testing {
namespace {

AsyncOptions named(std::string name) { return {.name = std::move(name)}; }

class Engine : public ::testing::TestWithParam<Setting> {
 protected:
  void run(const std::function<void(World&)>& body) { run_ranks(GetParam().ranks, body); }
};

// Thousands of operations of all sizes, submitted by several threads in an order of its own on each
// rank, with delays.
TEST_P(Engine, RunsAnyOrderFromAnyThread) {
  const Variable fusion("SULLAE_FUSION_THRESHOLD", "65536");  // so that some tensors exceed it
  run([](World& world) {
    constexpr int kThreads = 3;
    constexpr int kOperations = 200;
    constexpr std::size_t kSizes[] = {0, 1, 7, 256, 4099, 16381, 20011};
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(static_cast<unsigned>(world.rank() * 100 + t));
        for (int round = 0; round < 3; ++round) {
          std::vector<int> order(kOperations);
          std::iota(order.begin(), order.end(), 0);
          std::ranges::shuffle(order, random);
          std::vector<std::vector<std::int64_t>> values(kOperations);
          std::vector<Handle> handles(kOperations);
          for (const int i : order) {
            auto& own = values[static_cast<std::size_t>(i)];
            own.assign(kSizes[i % 7], world.rank() + i);
            handles[static_cast<std::size_t>(i)] =
                world.allreduce_async(own.data(), own.data(), own.size(), DataType::int64,
                                      i % 2 == 0 ? ReduceOp::sum : ReduceOp::max,
                                      named(std::to_string(t) + "/" + std::to_string(i)));
            if (random() % 50 == 0)
              std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
          }
          for (int i = 0; i < kOperations; ++i) {
            handles[static_cast<std::size_t>(i)].wait();
            const int p = world.size();
            const std::int64_t want = i % 2 == 0 ? p * (p - 1) / 2 + p * i : p - 1 + i;
            if (std::ranges::all_of(values[static_cast<std::size_t>(i)],
                                    [&](std::int64_t v) { return v == want; })) {
              ++right;
            }
          }
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(right, kThreads * 3 * kOperations);
  });
}

TEST_P(Engine, RunsEveryCollective) {
  run([](World& world) {
    const auto p = static_cast<std::size_t>(world.size());
    const int rank = world.rank();
    std::vector<std::size_t> counts(p);
    std::iota(counts.begin(), counts.end(), std::size_t{1});
    const std::size_t total = p * (p + 1) / 2;

    std::vector<std::int32_t> own(counts[static_cast<std::size_t>(rank)], rank);
    std::vector<std::int32_t> gathered(total);
    std::vector<std::int32_t> all(total, rank + 1);
    std::vector<std::int32_t> part(own.size());
    std::vector<std::int32_t> given(7, rank == static_cast<int>(p) - 1 ? 42 : 0);
    std::vector<std::int32_t> rooted(7, 1);
    std::vector<std::int32_t> sent(2 * p, rank);
    std::vector<std::int32_t> received(2 * p);
    const std::vector<std::size_t> twos(p, 2);

    std::vector<std::function<Handle()>> calls = {
        [&] {
          return world.allgatherv_async(own.data(), gathered.data(), counts, DataType::int32);
        },
        [&] {
          return world.reducescatterv_async(all.data(), part.data(), counts, DataType::int32,
                                            ReduceOp::sum, named("scatter"));
        },
        [&] {
          return world.broadcast_async(given.data(), 7, DataType::int32, static_cast<int>(p) - 1,
                                       named("give"));
        },
        [&] {
          return world.reduce_async(rooted.data(), rooted.data(), 7, DataType::int32, ReduceOp::sum,
                                    0, named("root"));
        },
        [&] {
          return world.alltoallv_async(sent.data(), twos, received.data(), twos, DataType::int32,
                                       named("swap"));
        },
        [&] { return world.barrier_async(named("meet")); },
    };
    std::rotate(calls.begin(), calls.begin() + rank % static_cast<int>(calls.size()), calls.end());
    std::vector<Handle> handles;
    for (const auto& call : calls) handles.push_back(call());
    for (const auto& handle : handles) handle.wait();

    std::size_t i = 0;
    for (std::size_t r = 0; r < p; ++r) {
      for (std::size_t k = 0; k < counts[r]; ++k) EXPECT_EQ(gathered[i++], static_cast<int>(r));
      EXPECT_EQ(received[2 * r], static_cast<int>(r));
    }
    for (const auto value : part) EXPECT_EQ(value, static_cast<int>(total));
    for (const auto value : given) EXPECT_EQ(value, 42);
    if (rank == 0) {
      EXPECT_EQ(rooted[6], static_cast<int>(p));
    }
  });
}

TEST_P(Engine, ReducesEveryTypeTogetherAndAlone) {
  const auto& hosts = GetParam().ranks.hosts;
  const bool uneven = std::ranges::adjacent_find(hosts, std::not_equal_to{}) != hosts.end();
  run([=](World& world) {
    for (const DataType type : kAllTypes) {
      for (const ReduceOp op : kAllOps) {
        if (type == DataType::boolean && op == ReduceOp::average) continue;
        // Hosts of different sizes average their own, and are weighed.
        const bool rounds = type == DataType::float16 && op == ReduceOp::average && uneven;
        const double rounding = rounds ? 0x1p-8 : 0;
        std::vector<std::vector<std::byte>> values;
        std::vector<TensorBuffers> tensors;
        for (const std::size_t count : {0U, 1U, 7U, 97U, 40009U}) {
          values.push_back(make_values(world.rank(), count, type));
          tensors.push_back({values.back().data(), values.back().data(), count});
        }
        world.grouped_allreduce_async(tensors, type, op, named("group")).wait();
        for (std::size_t t = 0; t < tensors.size(); ++t) {
          for (std::size_t i = 0; i < tensors[t].count; ++i) {
            std::vector<double> inputs;
            for (int rank = 0; rank < world.size(); ++rank)
              inputs.push_back(value_at(rank, i, type));
            ASSERT_NEAR(load(values[t], i, type), expected(inputs, type, op), rounding)
                << name(op) << " of " << name(type);
          }
        }
      }
    }
  });
}

TEST_P(Engine, ScalesWhatGoesInAndWhatComesOut) {
  run([](World& world) {
    for (const DataType type :
         {DataType::float32, DataType::float64, DataType::float16, DataType::bfloat16}) {
      std::vector<std::vector<std::byte>> values(2);
      std::vector<TensorBuffers> tensors;
      for (auto& one : values) {
        one = make_values(world.rank(), 33, type);
        tensors.push_back({one.data(), one.data(), 33});
      }
      const auto in = values[0];
      AsyncOptions options = named("scaled");
      options.prescale = 0.5;
      options.postscale = 4.0;
      world.grouped_allreduce_async(tensors, type, ReduceOp::sum, options).wait();
      std::vector<std::byte> alone(in.size());
      world.allreduce_async(in.data(), alone.data(), 33, type, ReduceOp::sum, options).wait();
      for (std::size_t i = 0; i < 33; ++i) {
        double sum = 0;
        for (int rank = 0; rank < world.size(); ++rank) sum += value_at(rank, i, type);
        EXPECT_EQ(load(values[1], i, type), 2 * sum) << name(type);
        EXPECT_EQ(load(alone, i, type), 2 * sum) << name(type);
      }
    }
  });
}

// Each rank has another number of batches.
TEST_P(Engine, RanksWithoutDataJoin) {
  run([](World& world) {
    const int batches = 3 + 2 * world.rank();
    for (int i = 0; i < batches; ++i) {
      std::vector<float> gradient(1000, 1.0F);
      std::vector<float> bias(3, 2.0F);
      const std::vector<TensorBuffers> tensors = {{gradient.data(), gradient.data(), 1000},
                                                  {bias.data(), bias.data(), 3}};
      world.grouped_allreduce_async(tensors, DataType::float32, ReduceOp::sum, named("gradients"))
          .wait();
      int with_data = 0;
      for (int rank = 0; rank < world.size(); ++rank) with_data += i < 3 + 2 * rank ? 1 : 0;
      EXPECT_EQ(gradient[999], static_cast<float>(with_data));
      EXPECT_EQ(bias[2], 2 * static_cast<float>(with_data));
    }
    const Handle joined = world.join_async();
    const Handle again = world.join_async();
    joined.wait();
    again.wait();
    EXPECT_EQ(joined.source(), world.size() - 1);
    EXPECT_LT(again.source(), world.size());
    int value = 1;
    world.allreduce_async(&value, &value, 1, DataType::int32, ReduceOp::sum, named("after")).wait();
    EXPECT_EQ(value, world.size());
  });
}

// As a rank does that makes the others' steps, which come with sums of another kind.
TEST_P(Engine, RanksThatHaveJoinedMayFollow) {
  run([](World& world) {
    const int steps = 2 * world.size() - 1;
    const int own = 2 * world.rank() + 1;
    AsyncOptions bucket = named("bucket");
    bucket.joined_too = true;
    std::optional<Handle> joined;
    for (int i = 0; i < steps; ++i) {
      if (i == own) joined = world.join_async();
      int with_data = i < own ? 1 : 0;
      int value = with_data;
      if (i < own)  // without a name, of which ranks have made different numbers in the end
        world.allreduce_async(&with_data, &with_data, 1, DataType::int32).wait();
      world.allreduce_async(&value, &value, 1, DataType::int32, ReduceOp::sum, bucket).wait();
      EXPECT_EQ(value, world.size() - i / 2 - (i % 2));
      EXPECT_EQ(with_data, i < own ? value : 0);
    }
    if (!joined) joined = world.join_async();
    joined->wait();
    EXPECT_EQ(joined->source(), world.size() - 1);
    int value = 1;
    world.allreduce_async(&value, &value, 1, DataType::int32).wait();
    EXPECT_EQ(value, world.size());
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Engine, ::testing::ValuesIn(every_setting()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace sullae::testing
