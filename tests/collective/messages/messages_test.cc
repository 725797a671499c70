// Messages between two ranks, over every transport.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>

#include "sullae/adapter.h"
#include "sullae/communicator.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

// None, one element, what fits into a packet's first line, into a packet, and not; primes among
// them.
constexpr std::size_t kCounts[] = {0, 1, 2, 17, 18, 19, 1021, 2048, 2049, 16411, 1000003};

std::vector<float> numbers(int from, int to, int tag, std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), static_cast<float>(from * 100 + to * 10 + tag));
  return values;
}

class Messages : public ::testing::TestWithParam<Setting> {
 protected:
  // Ranks that are processes keep their world from one call to the next: who is ahead must not
  // answer a receive from any rank that another has still open.
  void run(const std::function<void(World&)>& body) {
    run_ranks(GetParam().ranks, [&](World& world) {
      body(world);
      world.barrier();
    });
  }
};

TEST_P(Messages, OfEverySizeReachEveryRank) {
  run([](World& world) {
    for (const std::size_t count : kCounts) {
      std::vector<std::vector<float>> sent;
      std::vector<Handle> sends;
      for (int to = 0; to < world.size(); ++to) {
        sent.push_back(numbers(world.rank(), to, 5, count));
        sends.push_back(world.send_async(sent.back().data(), count, DataType::float32, to, 5));
      }
      for (int from = 0; from < world.size(); ++from) {
        std::vector<float> received(count, -1.0F);
        EXPECT_EQ(world.receive(received.data(), count, DataType::float32, from, 5), from);
        EXPECT_EQ(received, numbers(from, world.rank(), 5, count));
      }
      for (const Handle& handle : sends) handle.wait();
    }
  });
}

// Pairs of ranks, one sends while the other receives.
TEST_P(Messages, BlockTheirCallersAlone) {
  run([](World& world) {
    const int other = world.rank() ^ 1;
    if (other >= world.size()) return;
    for (const std::size_t count : kCounts) {
      for (int turn = 0; turn < 4; ++turn) {
        if ((world.rank() + turn) % 2 == 0) {
          const auto values = numbers(world.rank(), other, turn, count);
          world.send(values.data(), count, DataType::float32, other);
        } else {
          std::vector<float> received(count);
          world.receive(received.data(), count, DataType::float32, other);
          EXPECT_EQ(received, numbers(other, world.rank(), turn, count));
        }
      }
    }
  });
}

TEST_P(Messages, ComeInOrderWithinATagAndInAnyOrderOtherwise) {
  run([](World& world) {
    const int next = (world.rank() + 1) % world.size();
    const int previous = (world.rank() + world.size() - 1) % world.size();
    std::vector<std::vector<float>> sent;
    std::vector<Handle> sends;
    for (int i = 0; i < 30; ++i) {
      sent.push_back(numbers(world.rank(), next, i, i % 5 == 0 ? 5000 : 5));
      const auto& values = sent.back();
      sends.push_back(
          world.send_async(values.data(), values.size(), DataType::float32, next, i % 3));
    }
    for (int tag = 2; tag >= 0; --tag) {
      for (int i = tag; i < 30; i += 3) {
        std::vector<float> received(i % 5 == 0 ? 5000 : 5);
        world.receive(received.data(), received.size(), DataType::float32, previous, tag);
        EXPECT_EQ(received, numbers(previous, world.rank(), i, received.size()));
      }
    }
    for (const Handle& handle : sends) handle.wait();
  });
}

TEST_P(Messages, OfAnyRankSayWhoSentThem) {
  run([](World& world) {
    for (const int tag : {0, 1}) {
      const std::size_t count = tag == 0 ? 3 : 30011;
      if (world.rank() != 0) {
        const auto values = numbers(world.rank(), 0, tag, count);
        world.send(values.data(), count, DataType::float32, 0, tag);
        continue;
      }
      std::vector<bool> came(static_cast<std::size_t>(world.size()));
      for (int i = 1; i < world.size(); ++i) {
        std::vector<float> received(count);
        int from = 0;
        if (i % 2 == 0) {
          from = world.receive(received.data(), count, DataType::float32, kAnySource, tag);
        } else {
          const Handle handle =
              world.receive_async(received.data(), count, DataType::float32, kAnySource, tag);
          handle.wait();
          from = handle.source();
        }
        EXPECT_EQ(received, numbers(from, 0, tag, count));
        came[static_cast<std::size_t>(from)] = true;
      }
      EXPECT_EQ(std::count(came.begin(), came.end(), true), world.size() - 1);
    }
  });
}

// More than any buffer on the way holds, before anybody receives.
TEST_P(Messages, MayBeMoreThanThereIsRoomFor) {
  run([](World& world) {
    const int next = (world.rank() + 1) % world.size();
    const int previous = (world.rank() + world.size() - 1) % world.size();
    constexpr int kMany = 2000;
    for (int i = 0; i < kMany; ++i) world.send(&i, 1, DataType::int32, next);
    for (int i = 0; i < kMany; ++i) {
      int received = -1;
      world.receive(&received, 1, DataType::int32, previous);
      ASSERT_EQ(received, i);
    }
  });
}

TEST_P(Messages, MayBeSentByManyThreadsBesideCollectives) {
  run([](World& world) {
    const int next = (world.rank() + 1) % world.size();
    const int previous = (world.rank() + world.size() - 1) % world.size();
    std::vector<std::thread> threads;
    for (int tag = 0; tag < 3; ++tag) {
      threads.emplace_back([&, tag] {
        for (int i = 0; i < 60; ++i) {
          const std::size_t count = i % 3 == 0 ? 4099 : 9;
          const auto values = numbers(world.rank(), next, tag + i, count);
          const Handle sent = world.send_async(values.data(), count, DataType::float32, next, tag);
          std::vector<float> received(count);
          world.receive(received.data(), count, DataType::float32, previous, tag);
          ASSERT_EQ(received, numbers(previous, world.rank(), tag + i, count));
          sent.wait();
        }
      });
    }
    for (int i = 0; i < 50; ++i) {
      int value = 1;
      world.allreduce(&value, &value, 1, DataType::int32);
      EXPECT_EQ(value, world.size());
    }
    for (auto& thread : threads) thread.join();
  });
}

TEST_P(Messages, OfProcessSetsAreApartAndNumberedByThem) {
  run([](World& world) {
    if (world.size() < 3) return;
    const int last = world.size() - 1;
    const auto ends = world.process_set({0, last});
    const auto all = world.process_set([&] {
      std::vector<int> ranks(static_cast<std::size_t>(world.size()));
      std::iota(ranks.begin(), ranks.end(), 0);
      return ranks;
    }());
    if (world.rank() == 0) {
      for (const int value : {1, 2, 3}) {
        const World& group = value == 1 ? *all : value == 2 ? *ends : world;
        group.send(&value, 1, DataType::int32, value == 2 ? 1 : last);
      }
    }
    if (world.rank() == last) {
      int value = 0;
      EXPECT_EQ(world.receive(&value, 1, DataType::int32, kAnySource), 0);
      EXPECT_EQ(value, 3);
      EXPECT_EQ(ends->receive(&value, 1, DataType::int32, kAnySource), 0);
      EXPECT_EQ(value, 2);
      EXPECT_EQ(all->receive(&value, 1, DataType::int32, 0), 0);
      EXPECT_EQ(value, 1);
      ends->send(&value, 1, DataType::int32, 0);
    }
    if (world.rank() == 0) {
      int value = 0;
      EXPECT_EQ(ends->receive(&value, 1, DataType::int32, kAnySource), 1);
    }
  });
}

TEST_P(Messages, ArePartOfPlannedOperationsToo) {
  run([](World& world) {
    const int next = (world.rank() + 1) % world.size();
    const int previous = (world.rank() + world.size() - 1) % world.size();
    int received = -1;
    AdapterView(world)
        .submit([&](Communicator& communicator) {
          const int own = communicator.rank();
          communicator.send(&own, 1, DataType::int32, next, 9);
          EXPECT_EQ(communicator.receive(&received, 1, DataType::int32, previous, 9), previous);
        })
        .wait();
    EXPECT_EQ(received, previous);
  });
}

// What the two sides disagree about is told to both, where both still wait; and the world goes on.
TEST_P(Messages, OfAnotherSizeOrTypeAreMismatches) {
  run([](World& world) {
    const int other = world.rank() ^ 1;
    if (other >= world.size()) return;
    for (const std::size_t count : {std::size_t{10}, std::size_t{10000}}) {
      for (const bool other_type : {false, true}) {
        std::vector<float> values(count + 1);
        std::string error;
        if (world.rank() % 2 == 0) {
          error = error_of([&] { world.send(values.data(), count, DataType::float32, other, 4); });
        } else {
          error = error_of([&] {
            world.receive(values.data(), other_type ? count : count + 1,
                          other_type ? DataType::int32 : DataType::float32, other, 4);
          });
        }
        if (world.rank() % 2 == 1 || count == 10000) {
          const int receiver = world.rank() | 1;
          EXPECT_EQ(error, "receive: rank " + std::to_string(receiver) + " expected " +
                               std::to_string(other_type ? count : count + 1) + " of " +
                               (other_type ? "int32" : "float32") + " from rank " +
                               std::to_string(receiver - 1) + " with tag 4, which sent " +
                               std::to_string(count) + " of float32");
        } else {
          EXPECT_EQ(error, "nothing was thrown");  // it was on its way before anybody knew
        }
      }
    }
    int value = world.rank();
    world.send(&value, 1, DataType::int32, other);
    world.receive(&value, 1, DataType::int32, other);
    EXPECT_EQ(value, other);
  });
}

// A common plan of who sends what to whom; each rank goes through its part in an order of its own.
TEST_P(Messages, ArriveWhateverTheOrder) {
  struct Planned {
    int from, to, tag;
    std::size_t count;
    bool any;
  };
  for (unsigned seed = 1; seed <= 5; ++seed) {
    run([seed](World& world) {
      std::mt19937 common(seed);
      const auto draw = [&](int below) {
        return static_cast<int>(common() % static_cast<unsigned>(below));
      };
      std::vector<Planned> plan;
      for (int i = 0; i < 150; ++i) {
        plan.push_back({.from = draw(world.size()),
                        .to = draw(world.size()),
                        .tag = i,
                        .count = kCounts[draw(10)],
                        .any = draw(2) == 0});
      }
      std::mt19937 own(seed * 1000 + static_cast<unsigned>(world.rank()));
      std::shuffle(plan.begin(), plan.end(), own);
      std::vector<std::vector<float>> memory(plan.size() * 2);
      std::vector<std::pair<Handle, std::size_t>> receives;
      std::vector<Handle> sends;
      for (std::size_t i = 0; i < plan.size(); ++i) {
        const Planned& one = plan[i];
        if (one.from == world.rank()) {
          auto& values = memory[2 * i] = numbers(one.from, one.to, one.tag, one.count);
          sends.push_back(
              world.send_async(values.data(), one.count, DataType::float32, one.to, one.tag));
        }
        if (one.to == world.rank()) {
          auto& values = memory[2 * i + 1] = std::vector<float>(one.count, -1.0F);
          receives.emplace_back(world.receive_async(values.data(), one.count, DataType::float32,
                                                    one.any ? kAnySource : one.from, one.tag),
                                i);
        }
      }
      for (const auto& [handle, i] : receives) {
        handle.wait();
        EXPECT_EQ(handle.source(), plan[i].from);
        ASSERT_EQ(memory[2 * i + 1], numbers(plan[i].from, plan[i].to, plan[i].tag, plan[i].count));
      }
      for (const Handle& handle : sends) handle.wait();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Messages, ::testing::ValuesIn(every_setting()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace sullae::testing
