// What ranks are told when another does something else, leaves, or does not come.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "support/errors.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

class Failures : public ::testing::TestWithParam<std::string> {};

TEST(Mismatch, IsAnErrorOnEveryRankWithBothSidesShown) {
  const auto errors = run_ranks_catching({.size = 3}, [](World& world) {
    std::vector<float> values(20);
    world.allreduce(values.data(), values.data(), world.rank() == 2 ? 12 : 10, DataType::float32);
  });
  for (const auto& error : errors) {
    EXPECT_TRUE(contains(error, "allreduce (sum) of 12 float32")) << error;
    EXPECT_TRUE(contains(error, "allreduce (sum) of 10 float32")) << error;
    EXPECT_TRUE(contains(error, "rank 2")) << error;
  }
}

class MismatchEverywhere : public ::testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(Everywhere, MismatchEverywhere, ::testing::ValuesIn(every_setting()),
                         [](const auto& setting) { return setting.param.name; });

// Also to those that do not talk to the one that is at fault. Within one host, and through messages
// alone, the world goes on.
TEST_P(MismatchEverywhere, IsToldToEveryRank) {
  for (const std::size_t count : {10, 100000, 1000000}) {
    run_ranks(GetParam().ranks, [&](World& world) {
      if (world.size() == 1) return;
      std::vector<float> values(count + 1);
      const std::string error = error_of([&] {
        world.allreduce(values.data(), values.data(), count + (world.rank() == 1 ? 1 : 0),
                        DataType::float32);
      });
      EXPECT_TRUE(contains(error, "ranks disagree about the collective") ||
                  contains(error, "the ranks called collectives of different sizes"))
          << error;
      if (!GetParam().ranks.hosts.empty()) return;
      int value = 1;
      world.allreduce(&value, &value, 1, DataType::int32);
      EXPECT_EQ(value, world.size());
    });
  }
}

// On hosts with several ranks, whichever of them differs.
TEST(Mismatch, IsToldToEveryRankOfEveryHost) {
  for (const std::vector<int>& hosts : {std::vector{2, 2}, std::vector{3, 1, 1}}) {
    const int size = std::accumulate(hosts.begin(), hosts.end(), 0);
    for (int odd = 0; odd < size; ++odd) {
      for (const std::size_t count : {10, 100000}) {
        SCOPED_TRACE(std::to_string(odd) + " of " + std::to_string(size));
        const auto errors = run_ranks_catching({.size = size, .hosts = hosts}, [&](World& world) {
          std::vector<float> values(count + 1);
          world.allreduce(values.data(), values.data(), count + (world.rank() == odd ? 1 : 0),
                          DataType::float32);
        });
        for (const auto& error : errors) {
          EXPECT_TRUE(contains(error, "ranks disagree about the collective") ||
                      contains(error, "the ranks called collectives of different sizes"))
              << error;
        }
      }
    }
  }
}

TEST(Mismatch, OfTypeOperationRootAndCollectiveIsFound) {
  const std::vector<std::function<void(World&, std::vector<std::byte>&)>> pairs = {
      [](World& w, std::vector<std::byte>& b) {
        w.allreduce(b.data(), b.data(), 4, w.rank() == 0 ? DataType::float32 : DataType::int32);
      },
      [](World& w, std::vector<std::byte>& b) {
        w.allreduce(b.data(), b.data(), 4, DataType::int32,
                    w.rank() == 0 ? ReduceOp::sum : ReduceOp::max);
      },
      [](World& w, std::vector<std::byte>& b) {
        w.broadcast(b.data(), 4, DataType::int32, w.rank());
      },
      [](World& w, std::vector<std::byte>& b) {
        if (w.rank() == 0) {
          w.barrier();
        } else {
          w.broadcast(b.data(), 4, DataType::int32, 0);
        }
      },
  };
  for (const auto& pair : pairs) {
    const auto errors = run_ranks_catching({.size = 2}, [&](World& world) {
      std::vector<std::byte> buffer(64);
      pair(world, buffer);
    });
    for (const auto& error : errors)
      EXPECT_TRUE(contains(error, "ranks disagree about the collective")) << error;
  }
}

// Whoever only sends in one of them hears of it, too.
TEST(Mismatch, OfAnyTwoCollectivesIsFoundBetweenHosts) {
  using Call = std::function<void(World&, std::vector<float>&, std::size_t)>;
  const std::vector<std::pair<const char*, Call>> calls = {
      {"barrier",
       [](World& w, auto&, std::size_t) {
         w.barrier();
       }},
      {"allreduce",
       [](World& w, auto& v, std::size_t n) {
         w.allreduce(v.data(), v.data(), n, DataType::float32);
       }},
      {"broadcast",
       [](World& w, auto& v, std::size_t n) {
         w.broadcast(v.data(), n, DataType::float32, 0);
       }},
      {"broadcast from 1",
       [](World& w, auto& v, std::size_t n) {
         w.broadcast(v.data(), n, DataType::float32, 1);
       }},
      {"reduce",
       [](World& w, auto& v, std::size_t n) {
         w.reduce(v.data(), v.data(), n, DataType::float32, ReduceOp::sum, 0);
       }},
      {"reduce to 1",
       [](World& w, auto& v, std::size_t n) {
         w.reduce(v.data(), v.data(), n, DataType::float32, ReduceOp::sum, 1);
       }},
      {"reducescatter",
       [](World& w, auto& v, std::size_t n) {
         std::vector<float> out(v.size());
         w.reducescatter(v.data(), out.data(), n / static_cast<std::size_t>(w.size()),
                         DataType::float32, ReduceOp::sum);
       }},
      {"allgather",
       [](World& w, auto& v, std::size_t n) {
         std::vector<float> out(v.size() * static_cast<std::size_t>(w.size()));
         w.allgather(v.data(), out.data(), n, DataType::float32);
       }},
      {"alltoall", [](World& w, auto& v, std::size_t n) {
         std::vector<float> out(v.size());
         w.alltoall(v.data(), out.data(), n / static_cast<std::size_t>(w.size()),
                    DataType::float32);
       }}};
  // Whoever has done its part, as the root of a broadcast, goes on; some rank is told, and none
  // waits in vain.
  for (const int size : {2, 3, 4}) {
    std::mutex mutex;
    std::map<std::string, int> told;
    run_ranks({.size = size, .transport = "ucx"}, [&](World& world) {
      for (const std::size_t count : {std::size_t{60}, std::size_t{60000}}) {
        for (const auto& [name, call] : calls) {
          for (const auto& [other_name, other] : calls) {
            std::vector<float> values(count);
            const bool is_odd = world.rank() == size - 1;
            const auto error = error_of([&] { (is_odd ? other : call)(world, values, count); });
            const bool is_told = contains(error, "ranks disagree about the collective") ||
                                 contains(error, "the ranks called collectives of different sizes");
            EXPECT_TRUE(is_told || error == "nothing was thrown") << error;
            const auto what = fmt::format("{}, {} of {}", name, other_name, count);
            const std::lock_guard lock(mutex);
            told[&name == &other_name ? "alike" : what] += is_told ? 1 : 0;
          }
        }
      }
    });
    for (const auto& [what, ranks] : told) {
      EXPECT_EQ(ranks > 0, what != "alike") << size << " ranks: " << what;
    }
  }
}

// Each on several hosts with several ranks.
TEST(Mismatch, OfWhatIsBetweenAllRanksLeavesTheWorldUsableEverywhere) {
  run_ranks({.size = 4, .hosts = {2, 2}}, [](World& world) {
    std::vector<int> values(8, 1);
    std::vector<int> out(8);
    const auto error = error_of([&] {
      world.reduce(values.data(), out.data(), 4, DataType::int32, ReduceOp::sum,
                   world.rank() == 3 ? 1 : 0);
    });
    // Those whose neighbours differ.
    EXPECT_TRUE(contains(error, "ranks disagree") || world.rank() % 3 != 0) << error;
    world.alltoall(values.data(), out.data(), 2, DataType::int32);
    world.allreduce(values.data(), values.data(), values.size(), DataType::int32);
    EXPECT_EQ(values[7], 4);
  });
}

TEST(Mismatch, LeavesTheWorldUsable) {
  run_ranks({.size = 3}, [](World& world) {
    std::vector<int> values(1000, 1);
    EXPECT_THROW(world.allreduce(values.data(), values.data(),
                                 static_cast<std::size_t>(10 + world.rank()), DataType::int32),
                 MismatchError);
    world.allreduce(values.data(), values.data(), values.size(), DataType::int32);
    EXPECT_EQ(values[999], 3);
  });
}

TEST(Mismatch, OfAlltoallCountsNamesBothRanks) {
  const auto errors = run_ranks_catching({.size = 2}, [](World& world) {
    std::vector<int> in(8);
    std::vector<int> out(8);
    const std::vector<std::size_t> sends = {2, 2};
    const std::vector<std::size_t> receives = {2,
                                               world.rank() == 0 ? std::size_t{3} : std::size_t{2}};
    world.alltoallv(in.data(), sends, out.data(), receives, DataType::int32);
  });
  for (const auto& error : errors)
    EXPECT_TRUE(contains(error, "rank 1 sends 2 elements to rank 0, which expects 3")) << error;
}

TEST_P(Failures, ARankThatLeavesIsNamed) {
  const auto errors = run_ranks_catching(
      {.size = 3, .transport = GetParam(), .timeout = std::chrono::seconds{20}}, [](World& world) {
        std::vector<float> values(100000);
        world.allreduce(values.data(), values.data(), values.size(), DataType::float32);
        if (world.rank() == 1) return;
        world.allreduce(values.data(), values.data(), values.size(), DataType::float32);
      });
  EXPECT_EQ(errors[1], "");
  EXPECT_TRUE(contains(errors[0], "rank 1") || contains(errors[2], "rank 1")) << errors[0] << '\n'
                                                                              << errors[2];
  EXPECT_NE(errors[0], "");
  EXPECT_NE(errors[2], "");
}

TEST_P(Failures, ARankThatDoesNotComeEndsTheWaitWithItsName) {
  const auto errors = run_ranks_catching(
      {.size = 2, .transport = GetParam(), .timeout = std::chrono::seconds{1}}, [](World& world) {
        if (world.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::seconds{4});
          return;
        }
        world.barrier();
      });
  EXPECT_TRUE(contains(
      errors[0], "rank 0 waited for rank 1, which did not join within 1 s (the world's timeout)"))
      << errors[0];
}

TEST_P(Failures, ALongWaitIsReportedWithTheRankThatIsAwaited) {
  ::setenv("SULLAE_STALL_WARNING", "1", 1);
  ::testing::internal::CaptureStderr();
  run_ranks({.size = 2, .transport = GetParam()}, [](World& world) {
    world.barrier();
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds{3});
    world.barrier();
    world.barrier();
  });
  ::unsetenv("SULLAE_STALL_WARNING");
  const auto log = ::testing::internal::GetCapturedStderr();
  const auto first = log.find("rank 0 has waited ");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_TRUE(contains(log, "s for rank 1")) << log;
  // Once, although the wait goes on.
  EXPECT_EQ(log.find("rank 0 has waited ", first + 1), std::string::npos) << log;
}

INSTANTIATE_TEST_SUITE_P(OverEveryTransport, Failures, ::testing::Values("shm", "ucx"),
                         [](const auto& test) { return test.param; });

TEST(AsynchronousOperations, ThatOthersNeverSubmitFail) {
  const auto errors =
      run_ranks_catching({.size = 2, .timeout = std::chrono::milliseconds{200}}, [](World& world) {
        if (world.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::seconds{1});
          return;
        }
        float value = 1;
        std::vector<Handle> handles;
        for (int i = 0; i < 1000; ++i)
          handles.push_back(world.allreduce_async(&value, &value, 1, DataType::float32));
        for (auto& handle : handles) EXPECT_THROW(handle.wait(), TimeoutError);
      });
  EXPECT_EQ(errors[0], "");
}

TEST(Arguments, ThatCannotBeAreRefused) {
  const World world = World::create({});
  float value = 1;
  EXPECT_THROW(world.broadcast(&value, 1, DataType::float32, 1), InputError);
  EXPECT_THROW(world.allgatherv(&value, &value, std::vector<std::size_t>{1, 1}, DataType::float32),
               InputError);
  bool flag = true;
  EXPECT_THROW(world.allreduce(&flag, &flag, 1, DataType::boolean, ReduceOp::average), InputError);
  EXPECT_THROW(World::create({.rank = 2, .size = 2}), InputError);
}

}  // namespace
}  // namespace sullae::testing
