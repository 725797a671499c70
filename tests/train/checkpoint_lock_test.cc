#include "train/checkpoint_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "base/host.h"
#include "support/errors.h"
#include "support/temporary_directory.h"
#include "support/variable.h"

namespace sullae::testing {
namespace {

using train::CheckpointLock;
using train::Contested;

TEST(CheckpointLock, IsOneTrainingsOfAName) {
  const TemporaryDirectory directory;
  const Variable limit("SULLAE_CHECKPOINT_LOCK_TIMEOUT", "0.05");
  std::optional<CheckpointLock> first;
  first.emplace(directory.path(), "mnist", Contested::wait);
  EXPECT_TRUE(first->take());
  EXPECT_TRUE(CheckpointLock(directory.path(), "mlp", Contested::wait).take());
  EXPECT_EQ(error_of([&] { CheckpointLock(directory.path(), "mnist", Contested::wait); }),
            "--checkpoint-dir " + directory.path().string() + ": process " +
                std::to_string(::getpid()) + " on " + host_name() +
                " writes checkpoints of mnist there, and did not end within 0.05 s "
                "(SULLAE_CHECKPOINT_LOCK_TIMEOUT)");
  first.reset();
  EXPECT_TRUE(CheckpointLock(directory.path(), "mnist", Contested::wait).take());
}

// The first rank of a world after a death: it does not wait, and has the folder once the one that
// was given up has ended.
TEST(CheckpointLock, IsTakenLaterFromARankThatWasGivenUp) {
  const TemporaryDirectory directory;
  std::optional<CheckpointLock> first;
  first.emplace(directory.path(), "mnist", Contested::wait);
  CheckpointLock second(directory.path(), "mnist", Contested::go_on);
  EXPECT_FALSE(second.take());
  first.reset();
  EXPECT_TRUE(second.take());
  EXPECT_FALSE(CheckpointLock(directory.path(), "mnist", Contested::go_on).take());
}

TEST(CheckpointLock, ThatCannotBeMadeIsWarnedOf) {
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(CheckpointLock("/nowhere", "mnist", Contested::wait).take());
  EXPECT_TRUE(contains(::testing::internal::GetCapturedStderr(),
                       "/nowhere/.mnist.lock: No such file or directory: nothing keeps another "
                       "training from writing there"));
}

}  // namespace
}  // namespace sullae::testing
