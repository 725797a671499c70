#include "base/file_lock.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "support/errors.h"
#include "support/temporary_directory.h"

namespace sullae {
namespace {

using testing::contains;
using testing::error_of;
using testing::TemporaryDirectory;

Deadline within(std::chrono::milliseconds limit) { return {limit, "a limit"}; }

TEST(FileLock, IsOneOpenFilesUntilItIsClosed) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "lock";
  EXPECT_EQ(is_locked(file), false);
  auto first = lock_file(file, 0600, within(std::chrono::milliseconds{0}));
  ASSERT_TRUE(first);
  EXPECT_EQ(is_locked(file), true);
  EXPECT_FALSE(lock_file(file, 0600, within(std::chrono::milliseconds{20})));
  first.reset();
  EXPECT_EQ(is_locked(file), false);
  EXPECT_TRUE(lock_file(file, 0600, within(std::chrono::milliseconds{0})));
}

TEST(FileLock, IsWaitedFor) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "lock";
  auto first = lock_file(file, 0600, within(std::chrono::milliseconds{0}));
  ASSERT_TRUE(first);
  auto second = std::async(std::launch::async, [&] {
    return static_cast<bool>(lock_file(file, 0600, within(std::chrono::minutes{1})));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  first.reset();
  EXPECT_TRUE(second.get());
}

TEST(FileLock, OfAFileThatCannotBeMadeIsNamed) {
  EXPECT_TRUE(contains(
      error_of([] { lock_file("/nowhere/lock", 0600, within(std::chrono::milliseconds{0})); }),
      "/nowhere/lock: No such file or directory"));
}

}  // namespace
}  // namespace sullae
