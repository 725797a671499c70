// `sullae run` on several hosts.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "launch/run.h"
#include "support/errors.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

// A remote shell that runs the command on this host: what ssh does, without the network.
class OtherHosts : public ::testing::Test {
 protected:
  std::string shell(const std::string& body) {
    const auto file = directory_.path() / ("rsh" + std::to_string(count_++));
    std::ofstream(file) << "#!/bin/sh\n" << body << '\n';
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }
  TemporaryDirectory directory_;
  int count_ = 0;
};

TEST_F(OtherHosts, RunRanksThroughTheRemoteShell) {
  const auto result =
      sullae_run({"-H", "nodeA:1,nodeB:2", "--store-host", "127.0.0.1", "--rsh",
                  shell("export HOST_GIVEN=$1; shift; exec sh -c \"$*\""), "sh", "-c",
                  "echo $SULLAE_RANK on $HOST_GIVEN as $SULLAE_LOCAL_RANK of $SULLAE_LOCAL_SIZE"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(sorted_lines(result.standard_output),
            (std::vector<std::string>{"[0] 0 on nodeA as 0 of 1", "[1] 1 on nodeB as 0 of 2",
                                      "[2] 2 on nodeB as 1 of 2"}));
}

TEST_F(OtherHosts, AFailureOnOneEndsThoseOnTheOthers) {
  const auto mark = unique_mark();
  const auto result = sullae_run({"-H", "nodeA:1,nodeB:1", "--store-host", "127.0.0.1", "--rsh",
                                  shell("shift; exec sh -c \"$*\""), "sh", "-c",
                                  "if [ $SULLAE_RANK = 1 ]; then exit 9; fi; sleep 600", mark});
  EXPECT_EQ(result.exit_code, 9);
  EXPECT_TRUE(contains(result.standard_error, "on nodeB) ended with exit code 9"))
      << result.standard_error;
  EXPECT_TRUE(vanish(mark));
}

TEST_F(OtherHosts, ThoseThatDoNotAnswerAreNamed) {
  const auto mark = unique_mark();
  const auto result =
      sullae_run({"-H", "silent:1,mute:1", "--connect-timeout", "0.5", "--store-host", "127.0.0.1",
                  "--rsh", shell("exec sleep 600 # " + mark), "true"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.standard_error,
                       "silent, mute did not answer within 0.5 s (--connect-timeout)"))
      << result.standard_error;
}

// As one does that has lost its power, until TCP gives it up.
TEST_F(OtherHosts, OneThatFallsSilentIsNotWaitedForForEver) {
  const auto mark = unique_mark();
  const auto pid_file = directory_.path() / "pid";
  Program program(
      {sullae_program(), "run", "-H", "nodeA:1,nodeB:1", "--store-host", "127.0.0.1", "--rsh",
       shell("[ $1 = nodeB ] && echo $$ > " + pid_file.string() + "; shift; exec sh -c \"$*\""),
       "sh", "-c", "echo up; sleep 600", mark});
  ASSERT_TRUE(program.wait_for_output("[0] up"));
  ASSERT_TRUE(program.wait_for_output("[1] up"));
  pid_t agent = 0;
  std::ifstream(pid_file) >> agent;
  ASSERT_EQ(::kill(agent, SIGSTOP), 0);
  program.signal(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds{300});
  program.signal(SIGINT);
  const auto result = program.wait();
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_TRUE(contains(result.standard_error,
                       "host nodeB has not said that its ranks, which were killed, have ended"))
      << result.standard_error;
  EXPECT_FALSE(contains(result.standard_error, "host nodeA has not said")) << result.standard_error;
  EXPECT_TRUE(vanish(mark));
}

// It is being started again, say.
TEST_F(OtherHosts, OneThatIsAwayWhenTheJobIsStartedAgainIsTriedOnceMore) {
  const std::string count = directory_.path() / "count";
  const auto result =
      sullae_run({"-H", "away:1", "--restarts", "3", "--store-host", "127.0.0.1", "--rsh",
                  shell("echo x >> " + count + "; [ $(wc -l < " + count +
                        ") = 2 ] && exit 255; shift; exec sh -c \"$*\""),
                  "sh", "-c", "[ $(wc -l < $0) = 3 ] || exit 7", count});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_error, "host away cannot be used")) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_error, "starting the job again (2 of 3 restarts)"))
      << result.standard_error;
}

TEST_F(OtherHosts, OneThatRefusesIsNamed) {
  const auto result =
      sullae_run({"-H", "refusing:1", "--store-host", "127.0.0.1", "--rsh",
                  shell("echo 'Permission denied (publickey).' >&2; exit 255"), "true"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.standard_error, "Permission denied")) << result.standard_error;
  EXPECT_TRUE(contains(
      result.standard_error,
      "host refusing cannot be used: the command that starts its agent ended with exit code 255"))
      << result.standard_error;
}

// Such as a wrapper that was sent into the background.
TEST_F(OtherHosts, OneWhoseShellStaysWithoutAWordIsNamed) {
  const auto mark = unique_mark();
  const auto result = sullae_run({"-H", "closed:1", "--store-host", "127.0.0.1", "--rsh",
                                  shell("exec >&- 2>&-; exec sleep 600 # " + mark), "true"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.standard_error,
                       "host closed cannot be used: the command that starts its agent has closed "
                       "its output"))
      << result.standard_error;
  EXPECT_TRUE(vanish(mark));
}

TEST_F(OtherHosts, OneThatGreetsIsExplained) {
  const auto result = sullae_run(
      {"-H", "chatty:1", "--store-host", "127.0.0.1", "--rsh",
       shell("echo 'Welcome to this fine computer, it is running well'; shift; exec sh -c \"$*\""),
       "true"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.standard_error, "does the remote shell print a greeting?"))
      << result.standard_error;
}

}  // namespace
}  // namespace sullae::testing
