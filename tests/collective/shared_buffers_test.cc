// What shared buffers cost a process beside their memory.
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <memory>
#include <vector>

#include "support/ranks.h"

namespace sullae::testing {
namespace {

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST(SharedBuffers, TakeNoDescriptors) {
  run_ranks({.size = 3}, [](World& world) {
    constexpr int kBuffers = 50;
    world.barrier();
    const auto before = open_descriptors();
    world.barrier();
    std::vector<std::shared_ptr<std::byte>> buffers;
    for (int i = 0; i < kBuffers; ++i) buffers.push_back(world.allocate_shared(1000));
    world.barrier();
    // The ranks are threads: what others have open now and then is in it.
    EXPECT_LT(open_descriptors(), before + kBuffers);
    world.barrier();
  });
}

}  // namespace
}  // namespace sullae::testing
