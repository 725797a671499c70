// What goes wrong in saving and loading in parts is told to all ranks.
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "parallel/checkpoint/saved_net.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

TEST_F(ShardedCheckpoint, MistakesOfSavingAreToldToAllAndLeaveTheOldOne) {
  const auto& make = kMakers.at("Adam");
  save(3, make);
  Found expected(file_, torch::kFloat32, make);
  run_ranks({.size = 3}, [&](World& world) {
    Net net;
    ShardedOptimizer optimizer(trained(net), make, {}, world);
    run_steps(net, optimizer, torch::kFloat32, 1, world);
    const auto error_of_saving = [&](const std::filesystem::path& file, CheckpointOptions options) {
      return error_of([&] { save_checkpoint(file, *net, optimizer, options); });
    };
    EXPECT_TRUE(contains(error_of_saving(folder_.path() / "no" / "file", {}),
                         "no/file cannot be written: No such file or directory (rank 0)"));
    EXPECT_TRUE(contains(error_of_saving(file_, {.weights = {{"one.weight", torch::ones(1)}}}),
                         "leave `weights` empty"));
    // No rank may write as far as that.
    world.barrier();
    rlimit before{};
    if (world.rank() == 0) {
      ::signal(SIGXFSZ, SIG_IGN);
      ::getrlimit(RLIMIT_FSIZE, &before);
      const rlimit little{1000, before.rlim_max};
      ::setrlimit(RLIMIT_FSIZE, &little);
    }
    world.barrier();
    EXPECT_TRUE(contains(error_of_saving(file_, {}), "cannot be written: File too large"));
    world.barrier();
    if (world.rank() == 0) ::setrlimit(RLIMIT_FSIZE, &before);
    world.barrier();
  });
  EXPECT_EQ(files(), std::vector<std::string>{"checkpoint"});
  Found found(file_, torch::kFloat32, make);
  expect_same(found, expected, "");
}

TEST_F(ShardedCheckpoint, MistakesOfLoadingAreToldToAll) {
  const auto& make = kMakers.at("Adam");
  save(2, make);
  const auto plain = folder_.path() / "plain";
  save_checkpoint(plain, *Net());
  const auto torn = folder_.path() / "torn";
  std::filesystem::copy_file(file_, torn);
  std::filesystem::resize_file(torn, std::filesystem::file_size(file_) - 100);
  const auto damaged = folder_.path() / "damaged";
  std::filesystem::copy_file(file_, damaged);
  std::fstream stream(damaged, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(5000);
  stream.put('x');
  stream.close();
  run_ranks({.size = 3}, [&](World& world) {
    Net net;
    ShardedOptimizer optimizer(trained(net), make, {}, world);
    const auto error = [&](const std::filesystem::path& file) {
      return error_of([&] { load_checkpoint(file, *net, optimizer); });
    };
    EXPECT_THROW(load_checkpoint(torn, *net, optimizer), CheckpointError);
    EXPECT_TRUE(contains(error(folder_.path() / "none"), "none: cannot be opened"));
    EXPECT_TRUE(contains(error(torn), "torn: is torn"));
    EXPECT_TRUE(contains(error(damaged), "damaged: is damaged"));
    EXPECT_TRUE(contains(error(plain), "plain: has no optimizer state"));
    for (const char* other : {"SGD", "two groups"}) {
      Net another;
      ShardedOptimizer of_another_kind(trained(another), kMakers.at(other), {}, world);
      EXPECT_TRUE(contains(error_of([&] { load_checkpoint(file_, *another, of_another_kind); }),
                           "the optimizer's state "));
    }
    torch::nn::Linear other(300, 130);
    ShardedOptimizer of_another(other->named_parameters(), make, {}, world);
    EXPECT_TRUE(contains(error_of([&] { load_checkpoint(file_, *other, of_another); }),
                         "has no 'weight': it belongs to another model"));
    EXPECT_THROW(load_checkpoint(file_, *other, of_another), InputError);
    // After all that.
    load_checkpoint(file_, *net, optimizer);
  });
}

}  // namespace
}  // namespace sullae::testing
