// A fork of a rank is no rank.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/errors.h"
#include "support/ranks.h"
#include "transport/store/store.h"
#include "transport/store/store_server.h"

namespace sullae::testing {
namespace {

// What `work` does in a fork: its exit code.
int in_a_fork(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool is_refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& error) {
    return contains(error.what(), "a fork of rank 0, and no rank") ||
           contains(error.what(), "the rank that this process is a fork of");
  }
  return false;
}

TEST(Fork, HasNoPartInTheWorldAndDoesItNoHarm) {
  run_ranks({.size = 2}, [](World& world) {
    std::vector<float> values(3, 1);
    float other = 1;
    if (world.rank() == 0) {
      const Handle under_way =
          world.allreduce_async(&other, &other, 1, DataType::float32, ReduceOp::sum);
      EXPECT_EQ(
          in_a_fork([&] {
            int refused = 0;
            refused += is_refused([&] { world.barrier(); });
            refused += is_refused([&] {
              world.allreduce(values.data(), values.data(), 3, DataType::float32, ReduceOp::sum);
            });
            refused += is_refused([&] {
              world.allreduce_async(values.data(), values.data(), 3, DataType::float32,
                                    ReduceOp::sum);
            });
            refused += is_refused([&] { world.send(values.data(), 3, DataType::float32, 1); });
            refused += is_refused([&] { under_way.wait(); });
            return refused;
          }),
          5);
      EXPECT_EQ(in_a_fork([&] {
                  const int rank = world.rank() + world.size();  // it may still know
                  world.leave();
                  return world.has_left() ? rank : 0;
                }),
                2);
      world.barrier();
      under_way.wait();
    } else {
      world.barrier();
      world.allreduce_async(&other, &other, 1, DataType::float32, ReduceOp::sum).wait();
    }
    EXPECT_EQ(other, 2);
    world.allreduce(values.data(), values.data(), 3, DataType::float32, ReduceOp::sum);
    EXPECT_EQ(values, std::vector<float>(3, 2));
  });
}

// As a Python program's fork that ends destroys all that it has a copy of.
TEST(Fork, EndsNoStore) {
  auto server = std::make_unique<StoreServer>(StoreAddress::parse("127.0.0.1:0"), "");
  EXPECT_EQ(in_a_fork([&] {
              server.reset();
              return 7;
            }),
            7);
  const Deadline deadline(std::chrono::seconds{20}, "the test's limit");
  const StoreAddress address = StoreAddress::parse("127.0.0.1:" + std::to_string(server->port()));
  Store store(address, deadline, "", "");
  store.set("a", "b", deadline);
  EXPECT_EQ(store.get("a", deadline), "b");
}

}  // namespace
}  // namespace sullae::testing
