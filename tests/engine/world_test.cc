#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/background_queue.h"
#include "sullae/communicator.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

TEST(World, KnowsItsPlace) {
  run_ranks({.size = 5, .hosts = {2, 3}}, [](World& world) {
    EXPECT_EQ(world.size(), 5);
    EXPECT_EQ(world.cross_size(), 2);
    EXPECT_EQ(world.cross_rank(), world.rank() < 2 ? 0 : 1);
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
    const auto own = World::create({});
    int value = 1;
    own->allreduce(&value, &value, 1, DataType::int32);
    EXPECT_EQ(value, 1);
    outer.allreduce(&value, &value, 1, DataType::int32);
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
    const auto handle = world.submit([&](Communicator& communicator) {
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

}  // namespace
}  // namespace sullae::testing
