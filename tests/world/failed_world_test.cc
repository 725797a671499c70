// What is left of a world after an error that leaves its ranks out of step: the first error, on
// every rank.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <thread>

#include "sullae/adapter.h"
#include "sullae/communicator.h"
#include "sullae/compression.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/wait_until.h"

namespace sullae::testing {
namespace {

using std::chrono::milliseconds;

constexpr const char* kNothing = "nothing was thrown";

// Also of what is no Error: what users' code throws comes back to them as it is.
template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return kNothing;
}

void allreduce_one(World& world) {
  float value = 1;
  world.allreduce(&value, &value, 1, DataType::float32);
  EXPECT_EQ(value, static_cast<float>(world.size()));
}

void expect_refused(World& world, const std::string& reason) {
  const std::vector<std::function<void()>> calls = {
      [&] { allreduce_one(world); },
      [&] { world.barrier(); },
      [&] { world.barrier_async({.name = "late"}).wait(); },
      [&] { AdapterView(world).submit([](Communicator& c) { c.barrier(); }).wait(); },
      [&] { world.allocate_shared(64); },
      [&] {
        world.process_set({0});
      }};
  for (const auto& call : calls) {
    const auto error = message_of(call);
    EXPECT_TRUE(contains(error, reason)) << "'" << error << "'";
  }
}

class FailedWorld : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(OverEveryTransport, FailedWorld, ::testing::Values("shm", "ucx"),
                         [](const auto& test) { return test.param; });

// Rank 1 comes late, when rank 0 has given it up and tries again: the two must not be paired.
TEST_P(FailedWorld, ByAProgramsOwnWord) {
  run_ranks({.size = 3, .transport = GetParam()}, [](World& world) {
    world.barrier();
    if (world.rank() == 1) {
      const Handle waiting = world.barrier_async({.name = "nobody else"});
      AdapterView(world).fail("enough of it");
      EXPECT_TRUE(contains(message_of([&] { waiting.wait(); }), "enough of it"));
    } else {
      EXPECT_TRUE(
          contains(message_of([&] { world.barrier(); }), "rank 1 cannot go on: enough of it"));
    }
    expect_refused(world, "enough of it");
  });
}

TEST_P(FailedWorld, RefusesEveryCallAfterATimeout) {
  for (const std::size_t count : {1U, 3000U, 300000U}) {
    std::atomic<bool> gave_up = false;
    run_ranks(
        {.size = 2, .transport = GetParam(), .timeout = milliseconds{200}}, [&](World& world) {
          const std::string reason = "rank 0 waited for rank 1, which did not join";
          std::vector<float> values(count);
          const auto attempt = [&](float value) {
            std::ranges::fill(values, value);
            return message_of(
                [&] { world.allreduce(values.data(), values.data(), count, DataType::float32); });
          };
          if (world.rank() == 0) {
            EXPECT_TRUE(contains(attempt(1), reason));
            EXPECT_TRUE(contains(attempt(10), reason));
            gave_up = true;
          } else {
            wait_until([&] { return gave_up.load(); });
            std::this_thread::sleep_for(milliseconds{300});
            // What was rank 0's first call may still come to its end, and nothing after it.
            if (attempt(2) == kNothing) {
              for (const float value : values) ASSERT_EQ(value, 3);
            }
            EXPECT_NE(attempt(2), kNothing);
          }
          std::this_thread::sleep_for(milliseconds{300});
          expect_refused(world, reason);
        });
  }
}

TEST_P(FailedWorld, SaysWhoCannotGoOnAndWhy) {
  run_ranks({.size = 3, .transport = GetParam()}, [](World& world) {
    const auto error = message_of([&] {
      AdapterView(world)
          .submit([&](Communicator& communicator) {
            if (world.rank() == 1) throw std::runtime_error("disk on fire");
            communicator.barrier();
          })
          .wait();
    });
    EXPECT_TRUE(contains(error, "disk on fire")) << error;
    EXPECT_TRUE(world.rank() == 1 || contains(error, "rank 1 cannot go on")) << error;
    expect_refused(world, "disk on fire");
  });
}

// What is agreed in the very cycle in which the world ends, ends too.
TEST_P(FailedWorld, EndsWhatIsUnderWay) {
  for (int i = 0; i < 30; ++i) {
    run_ranks({.size = 3, .transport = GetParam()}, [](World& world) {
      std::vector<float> values(8, 1.0F);
      std::vector<Handle> handles;
      for (int n = 0; n < 20; ++n) {
        handles.push_back(world.allreduce_async(values.data() + n % 8, values.data() + n % 8, 1,
                                                DataType::float32));
        if (n == 10 && world.rank() == 2)
          AdapterView(world).submit([](Communicator&) { throw std::runtime_error("the end"); });
      }
      for (auto& handle : handles) message_of([&] { handle.wait(); });  // or this test does not end
    });
  }
}

class Throwing final : public Compression {
 public:
  explicit Throwing(int rank) : rank_(rank) {}
  std::string name() const override { return "throwing"; }
  void allreduce(Communicator& ranks, float* values, std::size_t count, ReduceOp op) override {
    ranks.allreduce(values, values, count, DataType::float32, op);
    if (ranks.rank() == rank_) throw std::runtime_error("out of range");
    ranks.allreduce(values, values, count, DataType::float32, op);
  }

 private:
  int rank_;
};

// Not the end of the process, and no wait until the timeout.
TEST_P(FailedWorld, ACompressionMayThrowAnything) {
  run_ranks({.size = 3, .transport = GetParam()}, [](World& world) {
    std::vector<float> values(10);
    const auto error = message_of([&] {
      world
          .allreduce_async(values.data(), values.data(), values.size(), DataType::float32,
                           ReduceOp::sum,
                           {.name = "x", .compression = std::make_shared<Throwing>(2)})
          .wait();
    });
    EXPECT_TRUE(contains(error, "out of range")) << error;
    EXPECT_TRUE(world.rank() == 2 || contains(error, "rank 2 cannot go on")) << error;
    std::this_thread::sleep_for(milliseconds{500});
    EXPECT_NE(message_of([&] { allreduce_one(world); }), kNothing);
  });
}

// Each of the worlds fails, and the next one knows nothing of it.
TEST_P(FailedWorld, IsFollowedByNewOnes) {
  for (int i = 0; i < 100 && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("world " + std::to_string(i));
    run_ranks({.size = 2, .transport = GetParam()}, [i](World& world) {
      // The other may be done with this, and have failed, before it ends here.
      const auto first = message_of([&] { allreduce_one(world); });
      EXPECT_TRUE(first == kNothing || contains(first, "the end")) << first;
      const auto error = message_of([&] {
        AdapterView(world)
            .submit([&](Communicator& communicator) {
              if (world.rank() == i % 2) throw std::runtime_error("the end");
              communicator.barrier();
            })
            .wait();
      });
      EXPECT_TRUE(contains(error, "the end")) << error;
      expect_refused(world, "the end");
    });
  }
}

// A rank may hold on to the memory of an old bucket that others have let go of.
TEST(SharedBuffers, MayBeLetGoOfAtDifferentTimes) {
  run_ranks({.size = 3}, [](World& world) {
    constexpr std::size_t kCount = 100000;
    auto old = world.allocate_shared(kCount * sizeof(float));
    if (world.rank() == 1) old.reset();
    world.barrier();
    auto fresh = world.allocate_shared(kCount * sizeof(float));
    if (world.rank() == 2) old.reset();
    auto more = world.allocate_shared(64);
    for (int i = 0; i < 3; ++i) {
      // Rank 0 still uses the old one, the others the new one.
      auto* const values = reinterpret_cast<float*>((world.rank() == 0 ? old : fresh).get());
      std::fill_n(values, kCount, static_cast<float>(world.rank() + 1));
      world.allreduce(values, values, kCount, DataType::float32);
      for (std::size_t j = 0; j < kCount; j += 999) ASSERT_EQ(values[j], 6);
      if (i == 1 && world.rank() == 0) old = fresh;
      more = world.allocate_shared(64);
    }
  });
}

}  // namespace
}  // namespace sullae::testing
