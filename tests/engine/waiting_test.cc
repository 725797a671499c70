// Who waits works: operations that run in the thread that waits for them, and those that nobody
// waits for.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "base/interruption.h"
#include "sullae/adapter.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

AsyncOptions named(std::string name) { return {.name = std::move(name)}; }

Handle add_up(const World& world, int& value, const std::string& name) {
  value = 1;
  return world.allreduce_async(&value, &value, 1, DataType::int32, ReduceOp::sum, named(name));
}

// So often that the engine's thread is woken no more.
void wait_at_once(const World& world) {
  for (int i = 0; i < 100; ++i) {
    int value = 0;
    add_up(world, value, "at once").wait();
    ASSERT_EQ(value, world.size());
  }
}

class Waiting : public ::testing::TestWithParam<Setting> {
 protected:
  void run(const std::function<void(World&)>& body) { run_ranks(GetParam().ranks, body); }
};

TEST_P(Waiting, WhatNobodyWaitsForRunsByItself) {
  run([](World& world) {
    for (int round = 0; round < 10; ++round) {
      wait_at_once(world);
      int value = 0;
      const Handle handle = add_up(world, value, "alone");
      while (!handle.done()) std::this_thread::yield();
      EXPECT_EQ(value, world.size());
    }
  });
}

struct Interrupted {};

// The others come later, so that rank 0 has something to wait for.
TEST_P(Waiting, AnInterruptionEndsTheWaitAndNotTheOperation) {
  run([](World& world) {
    if (world.size() == 1) return;
    int value = 0;
    std::optional<Handle> early;
    if (world.rank() == 0) {
      const Interruptible at_once([] { throw Interrupted(); });
      early = add_up(world, value, "late");
      EXPECT_THROW(early->wait(), Interrupted);
    }
    world.barrier();
    (early ? *early : add_up(world, value, "late")).wait();
    EXPECT_EQ(value, world.size());

    if (world.rank() == 0) {
      const Interruptible at_once([] { throw Interrupted(); });
      EXPECT_THROW(world.join(), Interrupted);
    }
    world.barrier();
    if (world.rank() != 0) {
      EXPECT_GE(world.join(), 0) << "rank 0 has joined, although it waits no more";
    }
    world.barrier();
  });
}

TEST_P(Waiting, SeveralSubmittedAfterManyWaitedForAtOnce) {
  run([](World& world) {
    wait_at_once(world);
    std::vector<int> values(20);
    std::vector<Handle> handles;
    for (std::size_t i = 0; i < values.size(); ++i)
      handles.push_back(add_up(world, values[i], std::to_string(i)));
    for (std::size_t i = values.size(); i-- > 0;) handles[i].wait();
    for (const int value : values) EXPECT_EQ(value, world.size());
  });
}

TEST_P(Waiting, ThreadsWaitSideBySide) {
  run([](World& world) {
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 50; ++i) {
          int value = 0;
          const Handle handle = add_up(world, value, std::to_string(t));
          if (i % 3 == 0) std::this_thread::yield();
          handle.wait();
          if (value == world.size()) ++right;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(right, 200);
  });
}

// What one rank has not submitted yet ends nobody's wait, and does not hold whoever waits with a
// limit.
TEST_P(Waiting, ALimitIsLookedAtWhileOthersAreLate) {
  run([](World& world) {
    std::atomic<bool> seen{false};
    int value = 0;
    int late = 0;
    if (world.rank() == 0) {
      const Handle handle = add_up(world, value, "late");
      if (world.size() > 1) {
        EXPECT_FALSE(handle.wait_for(std::chrono::milliseconds(5)));
        EXPECT_FALSE(handle.done());
      }
      add_up(world, late, "now").wait();
      EXPECT_TRUE(handle.wait_for(std::chrono::minutes(1)));
    } else {
      add_up(world, late, "now").wait();
      add_up(world, value, "late").wait();
    }
    EXPECT_EQ(value, world.size());
    EXPECT_EQ(late, world.size());
  });
}

TEST_P(Waiting, PlannedOperationsKeepTheirOrderWhoeverRunsThem) {
  run([](World& world) {
    const AdapterView planned(world);
    for (int round = 0; round < 30; ++round) {
      std::vector<int> order;
      std::vector<Handle> handles;
      for (int i = 0; i < 5; ++i) {
        handles.push_back(planned.submit([&order, i](Communicator& ranks) {
          int value = i;
          ranks.broadcast(&value, 1, DataType::int32, 0);
          order.push_back(value);
        }));
      }
      if (round % 2 == 0) handles[2].wait();
      handles[4].wait();
      EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
    }
  });
}

// Whichever thread runs it.
TEST_P(Waiting, TheWorldCannotBeLeftInAnOperation) {
  run([](World& world) {
    wait_at_once(world);
    const AdapterView view(world);
    std::vector<std::string> messages;
    const auto leave = [&](Communicator&) {
      messages.push_back(error_of([&] { world.leave(); }));
    };
    view.negotiate(leave, {.what = "leave"}).wait();
    view.submit(leave).wait();
    view.run(leave);
    for (const std::string& message : messages)
      EXPECT_TRUE(contains(message, "call them in a thread of the program")) << message;
    EXPECT_EQ(messages.size(), 3U);
  });
}

TEST_P(Waiting, ErrorsReachWhoeverWaits) {
  run([](World& world) {
    const Handle handle =
        AdapterView(world).submit([](Communicator&) { throw InputError("not this one"); });
    EXPECT_EQ(error_of<InputError>([&] { handle.wait(); }), "not this one");
    EXPECT_EQ(error_of<InputError>([&] { handle.wait_for(std::chrono::seconds(1)); }),
              "not this one");
    wait_at_once(world);
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Waiting, ::testing::ValuesIn(every_setting()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace sullae::testing
