#include "cluster/command.h"

#include <gtest/gtest.h>

#include "support/errors.h"

namespace sullae::cluster {
namespace {

using testing::contains;
using testing::error_of;

TEST(Command, IsGivenItsInputAndGivesWhatItWrites) {
  const std::string large(1 << 20, 'x');
  const CommandResult result =
      run_command({.words = {"sh", "-c", "cat; echo wrong >&2; exit 3"}, .input = large});
  EXPECT_EQ(result.output, large);
  EXPECT_EQ(result.errors, "wrong\n");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(run_command({.words = {"cat"}}).output, "");
  EXPECT_EQ(run_command({.words = {"sh", "-c", "kill -9 $$"}}).exit_code, 128 + 9);
  EXPECT_EQ(error_of([] { run_command({.words = {"sullae-has-no-such-program"}}); }),
            "'sullae-has-no-such-program' cannot be run: No such file or directory");
}

TEST(Command, ThatDoesNotAnswerIsKilledAndNamed) {
  const auto error = error_of([] {
    run_command({.words = {"sleep", "100"}, .timeout = std::chrono::milliseconds{50}});
  });
  EXPECT_TRUE(contains(error, "sleep did not answer within 0.05 s (SULLAE_CLUSTER_TIMEOUT)"))
      << error;
  const auto silent = error_of([] {
    run_command({.words = {"sh", "-c", "exec >&- 2>&-; exec sleep 100"},
                 .timeout = std::chrono::milliseconds{50}});
  });
  EXPECT_TRUE(contains(silent, "sh did not answer within 0.05 s")) << silent;
}

TEST(Command, IsInstalledWhereTheShellWouldFindIt) {
  EXPECT_TRUE(is_installed("sh"));
  EXPECT_TRUE(is_installed("/bin/sh"));
  EXPECT_FALSE(is_installed("sullae-has-no-such-program"));
}

}  // namespace
}  // namespace sullae::cluster
