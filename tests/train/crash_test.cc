// A run that is killed at every step of writing a checkpoint, or of publishing a version: what was
// there is there, what is there is whole, and the next run goes on.
#include "base/failpoint.h"
#include "sullae/torch/checkpoint.h"
#include "support/errors.h"
#include "train/fixture.h"

namespace sullae::testing {
namespace {

class Crash : public Train {
 protected:
  ProgramResult train_until(const std::string& moment) {
    std::map<std::string, std::string> environment;
    if (!moment.empty()) environment["SULLAE_CRASH_AT"] = moment;
    return train(1,
                 {"--epochs", "2", "--max-steps", "40", "--checkpoint-dir", checkpoints_,
                  "--checkpoint-steps", "10", "--resume", "--export", models_},
                 environment);
  }
  // All that go by a checkpoint's name.
  int whole_checkpoints(const std::filesystem::path& folder) {
    int whole = 0;
    if (!std::filesystem::exists(folder)) return 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() != ".ckpt") continue;
      if (entry.path().parent_path().filename().string().starts_with('.')) continue;
      EXPECT_NO_THROW(read_checkpoint_metadata(entry.path())) << entry.path();
      ++whole;
    }
    return whole;
  }
  std::filesystem::path models_ = directory_.path() / "models";
};

TEST_F(Crash, AtEveryStepOfACheckpointLeavesWholeOnes) {
  for (const auto name : kFailpoints) {
    if (!name.starts_with("file.")) continue;
    SCOPED_TRACE(name);
    std::filesystem::remove_all(checkpoints_);
    std::filesystem::remove_all(models_);
    // The third file: there are checkpoints before it.
    const auto killed = train_until(std::string(name) + ":3");
    EXPECT_NE(killed.exit_code, 0);
    EXPECT_TRUE(contains(killed.standard_error, "was killed by signal 9")) << killed.standard_error;
    EXPECT_GT(whole_checkpoints(checkpoints_), 0);
    const auto resumed = train_until("");
    EXPECT_EQ(resumed.exit_code, 0) << resumed.standard_error;
    EXPECT_TRUE(contains(resumed.standard_output, "resuming after step"))
        << resumed.standard_output;
    for (const auto& file : files_in(checkpoints_)) {
      if (file.find(".tmp-") != std::string::npos) ADD_FAILURE() << file << " was left behind";
    }
  }
}

// Of two ranks that write one together, rank 0, or the other.
TEST_F(Crash, WhileRanksWriteACheckpointTogetherLeavesWholeOnes) {
  const auto train_sharded = [&](const std::string& moment) {
    std::map<std::string, std::string> environment;
    if (!moment.empty()) environment["SULLAE_CRASH_AT"] = moment;
    return train(
        2,
        {"--epochs", "2", "--max-steps", "40", "--checkpoint-dir", checkpoints_,
         "--checkpoint-steps", "10", "--resume", "--shard", "gradients", "--optimizer", "adam"},
        environment);
  };
  for (const char* const moment : {"file.created:2", "part.written:1", "part.written:20",
                                   "file.written:2", "file.synced:2", "file.renamed:2"}) {
    SCOPED_TRACE(moment);
    std::filesystem::remove_all(checkpoints_);
    const auto killed = train_sharded(moment);
    EXPECT_NE(killed.exit_code, 0);
    EXPECT_TRUE(contains(killed.standard_error, "was killed by signal 9")) << killed.standard_error;
    const int whole = whole_checkpoints(checkpoints_);
    EXPECT_GE(whole, std::string(moment).starts_with("file.") ? 1 : 0);
    const auto resumed = train_sharded("");
    EXPECT_EQ(resumed.exit_code, 0) << resumed.standard_error;
    EXPECT_EQ(contains(resumed.standard_output, "resuming after step"), whole > 0)
        << resumed.standard_output;
    for (const auto& file : files_in(checkpoints_))
      EXPECT_EQ(file.find(".tmp-"), std::string::npos) << file << " was left behind";
  }
}

TEST_F(Crash, AtEveryStepOfAPublicationLeavesAWholeVersionOrNone) {
  for (const auto name : kFailpoints) {
    if (!name.starts_with("publish.")) continue;
    SCOPED_TRACE(name);
    std::filesystem::remove_all(checkpoints_);
    std::filesystem::remove_all(models_);
    const auto killed = train_until(std::string(name));
    EXPECT_NE(killed.exit_code, 0);
    const bool there = std::filesystem::exists(models_ / "mnist" / "1");
    EXPECT_EQ(there, name == "publish.renamed");
    EXPECT_EQ(whole_checkpoints(models_), there ? 1 : 0);
    // The next one takes the next number and clears up.
    std::filesystem::remove_all(checkpoints_);
    EXPECT_EQ(train_until("").exit_code, 0);
    EXPECT_EQ(whole_checkpoints(models_), there ? 2 : 1);
    for (const auto& file : files_in(models_ / "mnist"))
      EXPECT_FALSE(file.starts_with(".making")) << file;
  }
}

}  // namespace
}  // namespace sullae::testing
