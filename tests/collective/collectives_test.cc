// Every collective, element type and reduction, over every transport and world size, against
// results computed here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "support/ranks.h"
#include "support/values.h"

namespace sullae::testing {
namespace {

// Nothing, one, less and more than a cell, a prime, more than a slot of every type, and more than
// several slots.
constexpr std::size_t kCounts[] = {0, 1, 7, 97, 4099, 40009, 300007};

class Collectives : public ::testing::TestWithParam<Setting> {
 protected:
  void run(const std::function<void(World&)>& body) { run_ranks(GetParam().ranks, body); }
};

double reduced(int size, std::size_t index, DataType type, ReduceOp op) {
  std::vector<double> values;
  for (int rank = 0; rank < size; ++rank) values.push_back(value_at(rank, index, type));
  return expected(values, type, op);
}

void check_reduced(const std::vector<std::byte>& out, std::size_t count, std::size_t first,
                   int size, DataType type, ReduceOp op, double rounding = 0) {
  for (std::size_t i = 0; i < count; ++i) {
    const double want = reduced(size, first + i, type, op);
    const double got = load(out, i, type);
    ASSERT_LE(std::abs(got - want), rounding)
        << got << " for " << want << ": " << name(op) << " of " << name(type) << ", element " << i
        << " of " << count;
  }
}

bool defined(DataType type, ReduceOp op) {
  return !(type == DataType::boolean && op == ReduceOp::average);
}

TEST_P(Collectives, AllreduceOfEveryTypeAndOperation) {
  const auto& hosts = GetParam().ranks.hosts;
  const bool uneven = std::ranges::adjacent_find(hosts, std::not_equal_to{}) != hosts.end();
  run([=](World& world) {
    for (const DataType type : kAllTypes) {
      for (const ReduceOp op : kAllOps) {
        if (!defined(type, op)) continue;
        // Hosts of different sizes average their own, and are weighed.
        const bool rounds = type == DataType::float16 && op == ReduceOp::average && uneven;
        for (const std::size_t count : {std::size_t{7}, std::size_t{4099}, std::size_t{40009}}) {
          const auto in = make_values(world.rank(), count, type);
          std::vector<std::byte> out(in.size());
          world.allreduce(in.data(), out.data(), count, type, op);
          check_reduced(out, count, 0, world.size(), type, op, rounds ? 0x1p-8 : 0);
        }
      }
    }
  });
}

TEST_P(Collectives, AllreduceOfEverySizeInPlace) {
  run([](World& world) {
    for (const std::size_t count : kCounts) {
      auto values = make_values(world.rank(), count, DataType::float32);
      world.allreduce(values.data(), values.data(), count, DataType::float32);
      check_reduced(values, count, 0, world.size(), DataType::float32, ReduceOp::sum);
    }
  });
}

TEST_P(Collectives, AllreduceInSharedBuffers) {
  run([](World& world) {
    constexpr std::size_t kMost = 300007;
    const auto memory = world.allocate_shared(kMost * 8 + 64);
    for (const DataType type : {DataType::float64, DataType::bfloat16}) {
      for (const std::size_t count : kCounts) {
        const auto in = make_values(world.rank(), count, type);
        std::vector<std::byte> out(in.size());
        std::byte* const place = memory.get() + 64;
        std::copy(in.begin(), in.end(), place);
        world.allreduce_async(place, place, count, type, ReduceOp::average).wait();
        std::copy(place, place + in.size(), out.begin());
        check_reduced(out, count, 0, world.size(), type, ReduceOp::average);
      }
    }
  });
}

TEST_P(Collectives, AllreduceWhereOnlySomeRanksUseSharedBuffers) {
  run([](World& world) {
    constexpr std::size_t kCount = 50021;
    const auto memory = world.allocate_shared(kCount * 4);
    std::vector<std::byte> ordinary(kCount * 4);
    std::byte* const place = world.rank() == 0 ? memory.get() : ordinary.data();
    const auto in = make_values(world.rank(), kCount, DataType::int32);
    std::copy(in.begin(), in.end(), place);
    world.allreduce_async(place, place, kCount, DataType::int32).wait();
    check_reduced({place, place + kCount * 4}, kCount, 0, world.size(), DataType::int32,
                  ReduceOp::sum);
  });
}

// Ranks of one host try two ways, and then keep one.
TEST_P(Collectives, LargeBuffersAreReducedAlikeTimeAndAgain) {
  run([](World& world) {
    constexpr std::size_t kCount = 600011;
    const auto in = make_values(world.rank(), kCount, DataType::float32);
    for (int i = 0; i < 12; ++i) {
      std::vector<std::byte> out(in.size());
      if (i % 5 == 4) {
        world.reduce(in.data(), out.data(), kCount, DataType::float32, ReduceOp::sum, 0);
        if (world.rank() != 0) continue;
      } else {
        world.allreduce(in.data(), out.data(), kCount, DataType::float32);
      }
      check_reduced(out, kCount, 0, world.size(), DataType::float32, ReduceOp::sum);
    }
  });
}

TEST_P(Collectives, EveryRankGetsTheSameBits) {
  run([](World& world) {
    for (const std::size_t count : kCounts) {
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i) {
        values[i] =
            1.0F / static_cast<float>(1 + i + static_cast<std::size_t>(world.rank()) * 1009);
      }
      world.allreduce(values.data(), values.data(), count, DataType::float32, ReduceOp::average);
      std::vector<float> firsts = values;
      world.broadcast(firsts.data(), count, DataType::float32, 0);
      EXPECT_EQ(values, firsts) << count;
    }
  });
}

TEST_P(Collectives, ReduceGivesToTheRootAlone) {
  run([](World& world) {
    for (const std::size_t count : kCounts) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max}) {
        const int root = static_cast<int>(count % static_cast<std::size_t>(world.size()));
        const auto in = make_values(world.rank(), count, DataType::int64);
        std::vector<std::byte> out(in.size(), std::byte{0x5a});
        world.reduce(in.data(), out.data(), count, DataType::int64, op, root);
        if (world.rank() == root) {
          check_reduced(out, count, 0, world.size(), DataType::int64, op);
        } else {
          EXPECT_EQ(out, std::vector<std::byte>(in.size(), std::byte{0x5a}));
        }
      }
    }
  });
}

std::vector<std::size_t> uneven_counts(int size, std::size_t most) {
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < size; ++rank)
    counts.push_back(rank % 3 == 1 ? 0 : most / static_cast<std::size_t>(rank + 1));
  return counts;
}

TEST_P(Collectives, ReducescatterOfUnevenParts) {
  run([](World& world) {
    for (const std::size_t most : kCounts) {
      const auto counts = uneven_counts(world.size(), most);
      const auto me = static_cast<std::size_t>(world.rank());
      const auto total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
      const auto first =
          std::accumulate(counts.begin(), counts.begin() + world.rank(), std::size_t{0});
      for (const DataType type : {DataType::float32, DataType::uint8}) {
        const auto in = make_values(world.rank(), total, type);
        std::vector<std::byte> out(counts[me] * element_size(type));
        world.reducescatterv(in.data(), out.data(), counts, type, ReduceOp::sum);
        check_reduced(out, counts[me], first, world.size(), type, ReduceOp::sum);
      }
    }
  });
}

TEST_P(Collectives, AllgatherOfUnevenParts) {
  run([](World& world) {
    for (const std::size_t most : kCounts) {
      const auto counts = uneven_counts(world.size(), most);
      for (const DataType type : {DataType::float16, DataType::float64}) {
        std::vector<std::byte> want;
        for (int rank = 0; rank < world.size(); ++rank) {
          const auto part = make_values(rank, counts[static_cast<std::size_t>(rank)], type);
          want.insert(want.end(), part.begin(), part.end());
        }
        const auto in =
            make_values(world.rank(), counts[static_cast<std::size_t>(world.rank())], type);
        std::vector<std::byte> out(want.size());
        world.allgatherv(in.data(), out.data(), counts, type);
        EXPECT_EQ(out, want) << most;
      }
    }
  });
}

// Buffers of all ranks lie in shared memory, of some, or of none.
TEST_P(Collectives, ReducescatterAndAllgatherInSharedBuffers) {
  run([](World& world) {
    constexpr std::size_t kMost = 300007;
    const auto memory = world.allocate_shared(kMost * 4 * static_cast<std::size_t>(world.size()));
    std::vector<std::byte> ordinary(kMost * 4 * static_cast<std::size_t>(world.size()));
    for (const std::size_t most : kCounts) {
      if (most > kMost) continue;
      const auto counts = uneven_counts(world.size(), most);
      const auto me = static_cast<std::size_t>(world.rank());
      const auto total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
      const auto first =
          std::accumulate(counts.begin(), counts.begin() + world.rank(), std::size_t{0});
      for (const int sharing : {world.size(), 1}) {
        std::byte* const place = world.rank() < sharing ? memory.get() : ordinary.data();
        const auto in = make_values(world.rank(), total, DataType::float32);
        std::copy(in.begin(), in.end(), place);
        std::vector<std::byte> part(counts[me] * 4);
        world.reducescatterv_async(place, part.data(), counts, DataType::float32).wait();
        check_reduced(part, counts[me], first, world.size(), DataType::float32, ReduceOp::sum);

        std::copy(part.begin(), part.end(), place + first * 4);
        world.allgatherv_async(place + first * 4, place, counts, DataType::float32).wait();
        check_reduced({place, place + total * 4}, total, 0, world.size(), DataType::float32,
                      ReduceOp::sum);
      }
    }
  });
}

TEST_P(Collectives, BroadcastFromEveryRoot) {
  run([](World& world) {
    for (const std::size_t count : kCounts) {
      for (int root = 0; root < world.size(); ++root) {
        auto data = make_values(world.rank(), count, DataType::float32);
        world.broadcast(data.data(), count, DataType::float32, root);
        EXPECT_EQ(data, make_values(root, count, DataType::float32)) << count << " from " << root;
      }
    }
  });
}

TEST_P(Collectives, AlltoallOfUnevenParts) {
  run([](World& world) {
    const auto count_between = [](int from, int to, std::size_t most) {
      return (from + to) % 3 == 2 ? 0 : most / static_cast<std::size_t>(1 + from + 2 * to);
    };
    for (const std::size_t most : kCounts) {
      std::vector<std::size_t> sends;
      std::vector<std::size_t> receives;
      std::vector<std::byte> in;
      std::vector<std::byte> want;
      for (int rank = 0; rank < world.size(); ++rank) {
        sends.push_back(count_between(world.rank(), rank, most));
        receives.push_back(count_between(rank, world.rank(), most));
        const auto sent = make_values(world.rank(), sends.back(), DataType::int32,
                                      static_cast<std::size_t>(rank));
        in.insert(in.end(), sent.begin(), sent.end());
        const auto received = make_values(rank, receives.back(), DataType::int32,
                                          static_cast<std::size_t>(world.rank()));
        want.insert(want.end(), received.begin(), received.end());
      }
      std::vector<std::byte> out(want.size());
      world.alltoallv(in.data(), sends, out.data(), receives, DataType::int32);
      EXPECT_EQ(out, want) << most;
    }
  });
}

// Also where parts differ: of as many in all, though not in each place.
TEST_P(Collectives, AlltoallMayBeInPlace) {
  run([](World& world) {
    const auto size = static_cast<std::size_t>(world.size());
    const auto me = static_cast<std::size_t>(world.rank());
    for (const std::size_t least : {std::size_t{1}, std::size_t{7}, std::size_t{40'000}}) {
      // From one rank to another: a cyclic matrix, whose rows and columns have the same sum.
      const auto count_between = [&](std::size_t from, std::size_t to) {
        return least * (1 + (from + to) % size);
      };
      std::vector<std::size_t> sends;
      std::vector<std::size_t> receives;
      std::vector<std::byte> values;
      std::vector<std::byte> want;
      for (std::size_t rank = 0; rank < size; ++rank) {
        sends.push_back(count_between(me, rank));
        receives.push_back(count_between(rank, me));
        const auto sent = make_values(world.rank(), sends.back(), DataType::int32, rank);
        values.insert(values.end(), sent.begin(), sent.end());
        const auto received =
            make_values(static_cast<int>(rank), receives.back(), DataType::int32, me);
        want.insert(want.end(), received.begin(), received.end());
      }
      world.alltoallv(values.data(), sends, values.data(), receives, DataType::int32);
      EXPECT_EQ(values, want) << least;
    }
  });
}

TEST_P(Collectives, EqualPartsNeedNoCounts) {
  run([](World& world) {
    const auto size = static_cast<std::size_t>(world.size());
    const auto mine = make_values(world.rank(), 5, DataType::int32);
    std::vector<std::byte> gathered(5 * 4 * size);
    world.allgather(mine.data(), gathered.data(), 5, DataType::int32);
    std::vector<std::byte> scattered(5 * 4);
    world.reducescatter(gathered.data(), scattered.data(), 5, DataType::int32);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(load(scattered, i, DataType::int32),
                value_at(world.rank(), i, DataType::int32) * world.size());
    }
    std::vector<std::byte> exchanged(5 * 4 * size);
    world.alltoall(gathered.data(), exchanged.data(), 5, DataType::int32);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(load(exchanged, i, DataType::int32), value_at(world.rank(), i, DataType::int32));
    }
  });
}

TEST_P(Collectives, ManyOperationsInARowKeepTheirOrder) {
  run([](World& world) {
    std::vector<std::int64_t> values(200);
    std::vector<Handle> handles;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<std::int64_t>(i) + world.rank();
      handles.push_back(world.allreduce_async(&values[i], &values[i], 1, DataType::int64));
      // Blocking calls between them do not disturb the background order.
      if (i % 10 == 0) world.barrier();
    }
    for (auto& handle : handles) handle.wait();
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], static_cast<std::int64_t>(i) * world.size() +
                               world.size() * (world.size() - 1) / 2);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Collectives, ::testing::ValuesIn(every_setting()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace sullae::testing
