// What the engine refuses, and what becomes of what waits.
#include <gtest/gtest.h>

#include <thread>

#include "support/errors.h"
#include "support/ranks.h"
#include "support/values.h"
#include "support/variable.h"

namespace sullae::testing {
namespace {

AsyncOptions named(std::string name) { return {.name = std::move(name)}; }

std::string failure_of(const Handle& handle) {
  return error_of([&] { handle.wait(); });
}

struct Disagreement {
  const char* name;
  std::function<Handle(World&, void*)> usual;
  std::function<Handle(World&, void*)> unusual;  // on rank 1
  const char* usual_text;
  const char* unusual_text;
};

TEST(EngineErrors, EveryDisagreementIsToldToEveryRankAtOnce) {
  const auto allreduce = [](std::size_t count, DataType type, ReduceOp op, std::string shape) {
    return [=](World& world, void* data) {
      return world.allreduce_async(data, data, count, type, op, {.name = "x", .shape = shape});
    };
  };
  const auto broadcast = [](int root) {
    return [=](World& world, void* data) {
      return world.broadcast_async(data, 4, DataType::float32, root, named("x"));
    };
  };
  const auto usual = allreduce(4, DataType::float32, ReduceOp::sum, "[2, 2]");
  const char* const usual_text = "allreduce (sum) of 4 float32 [2, 2]";
  const std::vector<Disagreement> all = {
      {"size", usual, allreduce(5, DataType::float32, ReduceOp::sum, "[5]"), usual_text,
       "allreduce (sum) of 5 float32 [5]"},
      {"shape", usual, allreduce(4, DataType::float32, ReduceOp::sum, "[4]"), usual_text,
       "allreduce (sum) of 4 float32 [4]"},
      {"type", usual, allreduce(4, DataType::int32, ReduceOp::sum, "[2, 2]"), usual_text,
       "allreduce (sum) of 4 int32 [2, 2]"},
      {"operation", usual, allreduce(4, DataType::float32, ReduceOp::max, "[2, 2]"), usual_text,
       "allreduce (max) of 4 float32 [2, 2]"},
      {"collective", usual, broadcast(0), usual_text, "broadcast of 4 float32 from root 0"},
      {"root", broadcast(2), broadcast(0), "broadcast of 4 float32 from root 2",
       "broadcast of 4 float32 from root 0"},
  };
  for (const auto& one : all) {
    SCOPED_TRACE(one.name);
    run_ranks({.size = 3}, [&](World& world) {
      std::vector<double> data(8);
      const auto& call = world.rank() == 1 ? one.unusual : one.usual;
      const auto message = failure_of(call(world, data.data()));
      EXPECT_TRUE(contains(message, "ranks disagree about 'x'")) << message;
      EXPECT_TRUE(contains(message, one.usual_text)) << message;
      EXPECT_TRUE(contains(message, std::string("rank 1 submitted ") + one.unusual_text))
          << message;
      // The world goes on.
      one.usual(world, data.data()).wait();
    });
  }
}

TEST(EngineErrors, AStallNamesTheOperationAndTheMissingRanks) {
  const Variable timeout("SULLAE_STALL_TIMEOUT", "0.3");
  run_ranks({.size = 3}, [](World& world) {
    float value = 1;
    if (world.rank() != 1) {
      const auto message = failure_of(
          world.allreduce_async(&value, &value, 1, DataType::float32, ReduceOp::sum, named("x")));
      EXPECT_TRUE(contains(message,
                           "'x' (allreduce (sum) of 1 float32) was submitted by ranks 0, 2, but "
                           "not by ranks 1 within SULLAE_STALL_TIMEOUT"))
          << message;
    }
    world.barrier();
    // The late rank is told, too, and then all may try again.
    if (world.rank() == 1) {
      const auto message = failure_of(
          world.allreduce_async(&value, &value, 1, DataType::float32, ReduceOp::sum, named("x")));
      EXPECT_TRUE(contains(message, "not by ranks 1 within")) << message;
    }
    world.allreduce_async(&value, &value, 1, DataType::float32, ReduceOp::sum, named("x")).wait();
    EXPECT_EQ(value, 3.0F);
  });
}

TEST(EngineErrors, AStallIsReportedLongBeforeItIsAnError) {
  const Variable warning("SULLAE_STALL_WARNING", "0.2");
  ::testing::internal::CaptureStderr();
  run_ranks({.size = 2}, [](World& world) {
    float value = 1;
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds{600});
    world.allreduce_async(&value, &value, 1, DataType::float32, ReduceOp::sum, named("slow"))
        .wait();
    EXPECT_EQ(value, 2.0F);
  });
  const auto log = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(contains(log, "'slow' (allreduce (sum) of 1 float32) has waited")) << log;
  EXPECT_TRUE(contains(log, "for ranks 1 (ranks 0 have submitted it)")) << log;
}

TEST(EngineErrors, WhatIsRefusedEndsWhileNobodySaysAnything) {
  run_ranks({.size = 2}, [](World& world) {
    float value = 1;
    float other = 1;
    float told = 0;
    const auto submit = [&](float& data) {
      return world.allreduce_async(&data, &data, 1, DataType::float32, ReduceOp::sum, named("x"));
    };
    if (world.rank() == 1) world.receive(&told, 1, DataType::float32, 0);
    const auto first = submit(value);
    if (world.rank() == 0) {
      // In a later cycle than the first.
      std::this_thread::sleep_for(std::chrono::milliseconds{100});
      const auto message = failure_of(submit(other));
      EXPECT_TRUE(contains(message, "'x' was submitted again before it was done")) << message;
      world.send(&told, 1, DataType::float32, 1);
    }
    first.wait();
    EXPECT_EQ(value, 2.0F);
  });
}

TEST(EngineErrors, ARankThatLeavesEndsWhatOthersWaitFor) {
  run_ranks({.size = 3}, [](World& world) {
    if (world.rank() == 2) return;
    float value = 1;
    for (int i = 0; i < 2; ++i) {
      const auto handle =
          world.allreduce_async(&value, &value, 1, DataType::float32, ReduceOp::sum, named("x"));
      EXPECT_EQ(failure_of(handle), "rank 2 has left the world");
    }
    EXPECT_EQ(error_of([&] { world.join(); }), "rank 2 has left the world");
  });
}

TEST(EngineErrors, BadArgumentsAreRefusedWhereTheyAreGiven) {
  const World world = World::create({});
  std::int32_t value = 1;
  const std::vector<std::size_t> one = {1};
  const std::vector<std::size_t> two = {2};
  EXPECT_TRUE(contains(error_of([&] {
                         world.allreduce_async(&value, &value, 1, DataType::boolean, ReduceOp::sum,
                                               {.prescale = 0.5});
                       }),
                       "prescale and postscale are for numbers, not for bool"));
  EXPECT_TRUE(
      contains(error_of([&] { world.alltoallv_async(&value, one, &value, two, DataType::int32); }),
               "rank 0 would send 1 elements to itself and receive 2"));
  EXPECT_THROW(world.broadcast_async(&value, 1, DataType::int32, 1), InputError);
  EXPECT_THROW(world.allreduce_async(&value, &value, 1, DataType::boolean, ReduceOp::average),
               InputError);
}

TEST(Handles, CallBackWhenDone) {
  run_ranks({.size = 2}, [](World& world) {
    std::mutex mutex;
    std::vector<std::string> seen;
    const auto note = [&](const std::string& what) {
      return [&, what](const std::exception_ptr& error) {
        const std::lock_guard lock(mutex);
        seen.push_back(what + (error ? " failed" : " done"));
      };
    };
    float value = 1;
    const auto handle =
        world.allreduce_async(&value, &value, 1, DataType::float32, ReduceOp::sum, named("x"));
    handle.then(note("early"));
    handle.wait();
    world.barrier_async().wait();  // the callback has run by then
    handle.then(note("late"));
    Handle().then(note("unused"));
    const std::lock_guard lock(mutex);
    EXPECT_EQ(seen, (std::vector<std::string>{"early done", "late done", "unused done"}));
  });
}

TEST(Handles, TheWorldCompletesWhatWasSubmittedBeforeItEnds) {
  std::vector<float> values(3, 1.0F);
  std::vector<Handle> handles(3);
  run_ranks({.size = 3}, [&](World& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    std::this_thread::sleep_for(std::chrono::milliseconds{50 * world.rank()});
    handles[rank] = world.allreduce_async(&values[rank], &values[rank], 1, DataType::float32,
                                          ReduceOp::sum, named("last"));
  });
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(handles[rank].done());
    handles[rank].wait();
    EXPECT_EQ(values[rank], 3.0F);
  }
}

}  // namespace
}  // namespace sullae::testing
