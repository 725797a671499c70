#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <thread>

#include "engine/background_queue.h"
#include "sullae/adapter.h"
#include "sullae/communicator.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/wait_until.h"

namespace sullae::testing {
namespace {

TEST(World, KnowsItsPlace) {
  run_ranks({.size = 5, .hosts = {2, 3}}, [](World& world) {
    EXPECT_EQ(world.size(), 5);
    EXPECT_EQ(world.cross_size(), 2);
    EXPECT_EQ(world.cross_rank(), world.rank() < 2 ? 0 : 1);
    EXPECT_FALSE(world.is_homogeneous());
    EXPECT_EQ(world.local_size(), world.rank() < 2 ? 2 : 3);
    EXPECT_EQ(world.local_rank(), world.rank() < 2 ? world.rank() : world.rank() - 2);
  });
}

TEST(World, SharedMemoryAloneRefusesSeveralHosts) {
  const auto errors =
      run_ranks_catching({.size = 2, .transport = "shm", .hosts = {1, 1}}, [](World&) {});
  for (const auto& error : errors) {
    EXPECT_NE(error.find("SULLAE_TRANSPORT=shm serves one host, but the 2 ranks are on 2 hosts"),
              std::string::npos)
        << error;
  }
}

TEST(World, RefusesATransportThatThereIsNot) {
  const auto message = error_of([] { World::create({.transport = "pigeon"}); });
  EXPECT_TRUE(contains(message, "SULLAE_TRANSPORT='pigeon': expected one of auto, shm, ucx"))
      << message;
}

TEST(World, SeveralMayExistAtOnce) {
  run_ranks({.size = 2}, [](World& outer) {
    const World own = World::create({});
    int value = 1;
    own.allreduce(&value, &value, 1, DataType::int32);
    EXPECT_EQ(value, 1);
    outer.allreduce(&value, &value, 1, DataType::int32);
    EXPECT_EQ(value, 2);
  });
}

constexpr const char* kLeft = "this rank has left the world";

TEST(World, AfterLeavingEveryCopyThrowsAndKnowsItsPlace) {
  for (const char* transport : {"shm", "ucx"}) {
    run_ranks({.size = 2, .transport = transport}, [](World& world) {
      const World copy = world;
      int value = 1;
      const Handle submitted = world.allreduce_async(&value, &value, 1, DataType::int32);
      EXPECT_FALSE(copy.has_left());
      copy.leave();
      submitted.wait();  // what was submitted is completed
      EXPECT_EQ(value, 2);
      EXPECT_TRUE(world.has_left());
      EXPECT_EQ(world.size(), 2);
      const std::function<void()> calls[] = {
          [&] { world.allreduce(&value, &value, 1, DataType::int32); },
          [&] { world.barrier(); },
          [&] { world.allreduce_async(&value, &value, 1, DataType::int32); },
          [&] { AdapterView(world).submit([](Communicator&) {}); },
          [&] { world.join(); },
          [&] { world.process_set({0}); },
          [&] { world.allocate_shared(64); },
          [&] { world.start_timeline("/tmp/never"); },
          [&] { world.stop_timeline(); },
          [&] {
            AdapterView(world).device_communicator(0);
          }};
      for (const auto& call : calls) EXPECT_TRUE(contains(error_of(call), kLeft)) << error_of(call);
      EXPECT_EQ(value, 2);
      world.leave();
    });
  }
}

TEST(World, GoesOnAfterMemoryThatNoMachineHas) {
  run_ranks({.size = 2}, [](World& world) {
    const auto error = error_of([&] { world.allocate_shared(std::size_t{1} << 60); });
    EXPECT_TRUE(contains(error, "allocate_shared: 1152921504606846976 bytes, expected at most"))
        << error;
    world.barrier();
  });
}

TEST(World, LeavesWhileOtherThreadsCall) {
  run_ranks({.size = 2}, [](World& world) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        float value = 1;
        const auto call = [&] {
          if (t == 0) world.allreduce_async(&value, &value, 1, DataType::float32).wait();
          if (t == 1) AdapterView(world).submit([](Communicator&) {}).wait();
          if (t == 2) world.mark("MARK", "nothing", std::chrono::steady_clock::now());
          if (t == 2 && world.has_left()) throw Error("this rank has left the world");
        };
        // Until this rank has left, or the other one, with which this one is at work.
        for (std::string error = "nothing was thrown"; error == "nothing was thrown";)
          error = error_of(call);
      });
    }
    world.barrier();
    world.leave();
    for (auto& thread : threads) thread.join();
  });
}

// The last copy may go in one of the world's own threads.
TEST(World, ACallbackMayHoldTheLastCopy) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  World::create({}).barrier();  // sanitizers start a thread of their own with the first
  const auto before = threads();
  for (const bool planned : {true, false}) {
    std::promise<void> dropped;
    auto released = dropped.get_future().share();
    {
      const World world = World::create({});
      AdapterView(world)
          .submit([released](Communicator&) { released.wait(); })
          .then([world](const std::exception_ptr&) {});
      if (!planned)
        world.barrier_async().then(
            [world, released, here = std::this_thread::get_id()](const std::exception_ptr&) {
              // A barrier that is done before this is said calls in this thread, which releases.
              if (std::this_thread::get_id() != here) released.wait();
            });
    }
    dropped.set_value();
    wait_until([&] { return threads() == before; });
  }
}

TEST(World, NullPointersAreRefusedBeforeAnythingIsSent) {
  run_ranks({.size = 2}, [](World& world) {
    float value = 1;
    const std::vector<std::size_t> counts = {1, 1};
    const auto type = DataType::float32;
    const std::function<void()> calls[] = {
        [&] { world.allreduce(nullptr, &value, 1, type); },
        [&] { world.allreduce(&value, nullptr, 1, type); },
        [&] { world.reduce(nullptr, nullptr, 1, type, ReduceOp::sum, 0); },
        [&] { world.reducescatterv(nullptr, &value, counts, type); },
        [&] { world.allgatherv(&value, nullptr, counts, type); },
        [&] { world.broadcast(nullptr, 1, type, 0); },
        [&] { world.alltoallv(nullptr, counts, &value, counts, type); },
        [&] { world.allreduce_async(nullptr, &value, 1, type); },
        [&] {
          world.broadcast_async(nullptr, 1, type, 0);
        }};
    for (const auto& call : calls)
      EXPECT_TRUE(contains(error_of(call), "a null pointer for")) << error_of(call);
    world.allreduce(nullptr, nullptr, 0, type);
    world.allreduce(&value, &value, 1, type);
    EXPECT_EQ(value, 2);
  });
}

TEST(World, AnyThreadMayCallBlockingCollectives) {
  run_ranks({.size = 2}, [](World& world) {
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          int value = 1;
          world.allreduce(&value, &value, 1, DataType::int32);
          right += value == 2 ? 1 : 0;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(right, 200);
  });
}

TEST(World, SubmittedSequencesRunAsOneOperation) {
  run_ranks({.size = 3}, [](World& world) {
    int value = world.rank();
    const auto handle = AdapterView(world).submit([&](Communicator& communicator) {
      communicator.allreduce(&value, &value, 1, DataType::int32, ReduceOp::max);
      communicator.allreduce(&value, &value, 1, DataType::int32, ReduceOp::sum);
    });
    handle.wait();
    EXPECT_TRUE(handle.done());
    EXPECT_EQ(value, 6);
  });
}

TEST(World, SharedMemoryOutlivesIt) {
  std::vector<std::shared_ptr<std::byte>> kept(2);
  run_ranks({.size = 2}, [&](World& world) {
    kept[static_cast<std::size_t>(world.rank())] = world.allocate_shared(1000);
  });
  for (auto& memory : kept) memory.get()[999] = std::byte{1};
}

TEST(Handle, ThatWasNeverUsedIsDone) {
  const Handle handle;
  EXPECT_TRUE(handle.done());
  handle.wait();
}

TEST(BackgroundQueue, RunsInOrderAndReportsWhatWasThrown) {
  std::vector<int> order;
  std::vector<std::shared_ptr<Completion>> completions;
  {
    BackgroundQueue queue(0);
    for (int i = 0; i < 5; ++i) {
      completions.push_back(std::make_shared<Completion>());
      queue.submit(
          [&order, i] {
            order.push_back(i);
            if (i == 2) throw MismatchError("two");
          },
          completions.back());
    }
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_THROW(completions[2]->wait(), MismatchError);
  completions[4]->wait();
}

TEST(BackgroundQueue, WaitsForItsTurnInTheCallingThread) {
  BackgroundQueue queue(0);
  std::thread::id ran_in;
  const auto look = [&] {
    ran_in = std::this_thread::get_id();
  };
  queue.run(look);
  EXPECT_EQ(ran_in, std::this_thread::get_id());
  std::atomic<bool> go = false;
  std::vector<int> order;
  const auto first = std::make_shared<Completion>();
  queue.submit(
      [&] {
        while (!go) std::this_thread::yield();
        order.push_back(1);
      },
      first);
  std::thread other([&] { queue.run([&] { order.push_back(2); }); });
  go = true;
  other.join();
  EXPECT_TRUE(first->done());
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_THROW(queue.run([] { throw MismatchError("three"); }), MismatchError);
  queue.run(look);  // what was thrown holds nothing up
  queue.stop();
  EXPECT_TRUE(contains(error_of([&] { queue.run(look); }), "this rank has left the world"));
}

// Ranks that wait and ranks that do not call the same collectives, in one order.
TEST(World, PlannedOperationsHaveOneOrderWhoeverWaits) {
  run_ranks({.size = 3}, [](World& world) {
    const AdapterView view(world);
    std::vector<float> values(40);
    std::vector<Handle> handles;
    for (int i = 0; i < 40; ++i) {
      float* const value = &values[static_cast<std::size_t>(i)];
      *value = static_cast<float>(i * world.rank());
      const auto sum = [value](Communicator& ranks) {
        ranks.allreduce(value, value, 1, DataType::float32, ReduceOp::sum);
      };
      if ((i + world.rank()) % 3 == 0) {
        view.run(sum, {.name = "sum"});
        EXPECT_EQ(*value, static_cast<float>(3 * i));
      } else {
        handles.push_back(view.submit(sum, {.name = "sum"}));
      }
    }
    for (const Handle& handle : handles) handle.wait();
    for (int i = 0; i < 40; ++i)
      EXPECT_EQ(values[static_cast<std::size_t>(i)], static_cast<float>(3 * i));
  });
}

}  // namespace
}  // namespace sullae::testing
