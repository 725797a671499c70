#include "launch/binding.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "base/host.h"
#include "support/variable.h"

namespace sullae::testing {
namespace {

TEST(Binding, CountsCoresThatItMayUse) {
  const auto cpus = allowed_cpus();
  EXPECT_GE(allowed_cores(), 1);
  EXPECT_LE(allowed_cores(), static_cast<int>(cpus.size()));
  std::thread([&] {  // whose affinity ends with it
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpus.back(), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(allowed_cores(), 1);
  })
      .join();
}

TEST(Binding, GivesAllCoresUnlessTheUserSaysOtherwise) {
  const char* const name = "OMP_NUM_THREADS";
  {
    const Variable set(name, "7");
    use_all_cores();
    EXPECT_STREQ(std::getenv(name), "7");
  }
  ASSERT_EQ(std::getenv(name), nullptr);
  use_all_cores();
  EXPECT_EQ(std::getenv(name), std::to_string(allowed_cores()));
  ::unsetenv(name);
}

}  // namespace
}  // namespace sullae::testing
