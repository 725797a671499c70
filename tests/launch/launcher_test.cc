// `sullae run` from outside, as a user sees it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "launch/run.h"
#include "support/content_of.h"
#include "support/errors.h"
#include "support/temporary_directory.h"
#include "support/two_networks.h"

namespace sullae::testing {
namespace {

TEST(Run, TagsEachLineWithItsRank) {
  const auto result = sullae_run(
      {"-np", "3", "sh", "-c", "echo rank $SULLAE_RANK of $SULLAE_SIZE; printf 'no end'"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(sorted_lines(result.standard_output),
            (std::vector<std::string>{"[0] no end", "[0] rank 0 of 3", "[1] no end",
                                      "[1] rank 1 of 3", "[2] no end", "[2] rank 2 of 3"}));
  EXPECT_EQ(sullae_run({"-np", "1", "--no-tag", "echo", "plain"}).standard_output, "plain\n");
}

TEST(Run, KeepsStandardErrorApart) {
  const auto result = sullae_run({"-np", "1", "sh", "-c", "echo out; echo err >&2"});
  EXPECT_EQ(result.standard_output, "[0] out\n");
  EXPECT_EQ(result.standard_error, "[0] err\n");
}

TEST(Run, PassesOnLongOutputWhole) {
  const auto result = sullae_run({"-np", "2", "sh", "-c", "seq 1 20000"});
  EXPECT_EQ(sorted_lines(result.standard_output).size(), 40000U);
}

TEST(Run, GivesArgumentsAndVariablesToTheProgram) {
  const auto result = sullae_run({"-n", "1", "--env", "COLOUR=green", "--env", "FROM_HERE", "sh",
                                  "-c", "echo $COLOUR $FROM_HERE $0 $1", "-np", "--env"},
                                 {{"FROM_HERE", "here"}});
  EXPECT_EQ(result.standard_output, "[0] green here -np --env\n");
}

TEST(Run, TakesTwoDashesForTheEndOfItsOptions) {
  EXPECT_EQ(sullae_run({"-np", "1", "--", "echo", "--", "hi"}).standard_output, "[0] -- hi\n");
  EXPECT_EQ(sullae_run({"-np", "1", "--no-tag", "echo", "-np", "--", "hi"}).standard_output,
            "-np -- hi\n");
}

// Nobody ever reads: a launcher that waits for that would end with the reader.
TEST(Run, ItsTimeoutReachesItThoughItsOutputStands) {
  const auto result =
      run_program({"bash", "-c", "$0 run -np 1 --timeout 1 yes | sleep 10; exit ${PIPESTATUS[0]}",
                   sullae_program()});
  EXPECT_EQ(result.exit_code, 124) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_error, "the job did not end within 1 s (--timeout)"));
}

// More than a pipe holds, to an agent that has more to say than its pipe holds.
TEST(Run, StartsRanksWithLongArgumentsWhileOthersWrite) {
  std::vector<std::string> words{"-np",
                                 "3",
                                 "--min-np",
                                 "1",
                                 "--output-dir",
                                 "",
                                 "sh",
                                 "-c",
                                 "head -c 1000000 /dev/zero | tr '\\0' x | fold -w 100; exit 5"};
  const TemporaryDirectory directory;
  words[5] = directory.path();
  for (int i = 0; i < 6000; ++i) words.push_back("data/part-" + std::to_string(i) + "-of-6000");
  EXPECT_EQ(sullae_run(words).exit_code, 5);
}

TEST(Run, WritesAFileARank) {
  TemporaryDirectory directory;
  const auto logs = directory.path() / "logs";
  EXPECT_EQ(sullae_run({"-np", "2", "--output-dir", logs, "sh", "-c",
                        "echo I am $SULLAE_RANK; echo bad >&2"})
                .exit_code,
            0);
  for (const std::string rank : {"0", "1"}) {
    const std::string text = content_of(logs / ("rank-" + rank + ".log"));
    EXPECT_TRUE(contains(text, "I am " + rank + "\n")) << text;
    EXPECT_TRUE(contains(text, "bad\n")) << text;
  }
}

TEST(Run, AddsToTheFilesWhenItStartsTheJobAgain) {
  TemporaryDirectory directory;
  const auto logs = directory.path() / "logs";
  const std::string mark = directory.path() / "mark";
  EXPECT_EQ(sullae_run({"-np", "1", "--restarts", "1", "--output-dir", logs, "sh", "-c",
                        "[ -e $0 ] && echo again && exit 0; echo first; touch $0; exit 3", mark})
                .exit_code,
            0);
  const std::string text = content_of(logs / "rank-0.log");
  EXPECT_EQ(text, "first\nagain\n");
  EXPECT_EQ(sullae_run({"-np", "1", "--output-dir", logs, "echo", "other"}).exit_code, 0);
  EXPECT_EQ(content_of(logs / "rank-0.log"), "other\n");
}

TEST(Run, ItsTimeoutIsOneForAllRestarts) {
  const auto result = sullae_run(
      {"-np", "1", "--restarts", "50", "--timeout", "1.5", "sh", "-c", "sleep 0.5; exit 3"});
  EXPECT_EQ(result.exit_code, 124) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_error, "the job did not end within 1.5 s (--timeout)"))
      << result.standard_error;
}

// Korean in the encoding of many years, say.
TEST(Run, PassesOnBytesThatAreNoText) {
  TemporaryDirectory directory;
  const auto folder = directory.path() / "\xb0\xa1";
  std::filesystem::create_directory(folder);
  const auto result = run_program(
      {"sh", "-c",
       "cd $1; exec $0 run -np 1 --no-tag --env \"HERE=$2\" sh -c 'echo $0 $HERE; pwd' $2",
       sullae_program(), folder, "\xc7\xd1\xed\x95\x9c"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(result.standard_output,
            "\xc7\xd1\xed\x95\x9c \xc7\xd1\xed\x95\x9c\n" + folder.string() + "\n");
}

TEST(Run, GoesOnWhereItsOutputCannotBeWritten) {
  TemporaryDirectory directory;
  const std::string mark = directory.path() / "mark";
  const auto result =
      run_program({"sh", "-c",
                   sullae_program() + " run -np 1 sh -c 'echo one; echo two; sleep 1; touch $0' " +
                       mark + " > /dev/full"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(std::filesystem::exists(mark));
  const std::string said = "standard output cannot be written: No space left on device";
  const auto found = result.standard_error.find(said);
  EXPECT_NE(found, std::string::npos) << result.standard_error;
  EXPECT_EQ(result.standard_error.find(said, found + 1), std::string::npos)
      << result.standard_error;
}

TEST(Run, DividesTheProcessors) {
  const auto result =
      sullae_run({"-np", "2", "--cpus-per-rank", "1", "sh", "-c", "echo threads $OMP_NUM_THREADS"},
                 {{"OMP_NUM_THREADS", ""}});
  EXPECT_TRUE(contains(result.standard_output, "[1] threads 1")) << result.standard_output;
  const auto users = sullae_run({"-np", "1", "sh", "-c", "echo threads $OMP_NUM_THREADS"},
                                {{"OMP_NUM_THREADS", "7"}});
  EXPECT_TRUE(contains(users.standard_output, "threads 7")) << "a user's own choice stays";
}

TEST(Run, ThreadsDoNotSpinUnlessTheUserSaysSo) {
  const auto policy = [](std::vector<std::string> options,
                         const std::map<std::string, std::string>& environment) {
    options.insert(options.begin(), {"-np", "1", "--no-tag"});
    options.insert(options.end(), {"sh", "-c", "echo ${OMP_WAIT_POLICY-default}"});
    return sullae_run(options, environment).standard_output;
  };
  EXPECT_EQ(policy({}, {}), "passive\n");
  EXPECT_EQ(policy({}, {{"OMP_WAIT_POLICY", "active"}}), "active\n");
  EXPECT_EQ(policy({"--env", "OMP_WAIT_POLICY=active"}, {}), "active\n");
  EXPECT_EQ(policy({}, {{"GOMP_SPINCOUNT", "7"}}), "default\n");
}

TEST(Run, TheFirstRankThatFailsEndsTheOthersAndDecidesTheExitCode) {
  const auto mark = unique_mark();
  const auto result = sullae_run(
      {"-np", "3", "sh", "-c", "if [ $SULLAE_RANK = 1 ]; then exit 7; fi; sleep 600", mark});
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_TRUE(contains(result.standard_error, "rank 1 (process ")) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_error, ") ended with exit code 7; ending the other ranks"))
      << result.standard_error;
  EXPECT_TRUE(vanish(mark));
}

TEST(Run, ARankKilledByASignalIsNamedWithIt) {
  const auto mark = unique_mark();
  const auto result = sullae_run(
      {"-np", "2", "sh", "-c", "if [ $SULLAE_RANK = 0 ]; then kill -9 $$; fi; sleep 600", mark});
  EXPECT_EQ(result.exit_code, 137);
  EXPECT_TRUE(contains(result.standard_error, "was killed by signal 9 (Killed)"))
      << result.standard_error;
  EXPECT_TRUE(vanish(mark));
}

TEST(Run, RanksThatIgnoreTheRequestToEndAreKilled) {
  const auto mark = unique_mark();
  const auto result = sullae_run(
      {"-np", "2", "sh", "-c",
       "trap '' TERM; if [ $SULLAE_RANK = 0 ]; then exit 3; fi; while :; do sleep 1; done", mark});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(vanish(mark));
}

TEST(Run, LeavesNothingThatARankStarted) {
  const auto mark = unique_mark();
  // A grandchild in a session of its own, as a daemon would be.
  const auto result =
      sullae_run({"-np", "2", "sh", "-c",
                  "setsid sh -c 'sleep 600; : " + mark + "' & sleep 0.2; echo started"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(vanish(mark));
}

TEST(Run, CtrlCEndsAllRanks) {
  const auto mark = unique_mark();
  Program program({sullae_program(), "run", "-np", "2", "sh", "-c", "echo up; sleep 600", mark});
  ASSERT_TRUE(program.wait_for_output("[1] up"));
  program.signal(SIGINT);
  const auto result = program.wait(std::chrono::seconds{30});
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_TRUE(contains(result.standard_error, "Interrupt; ending all ranks (once more kills them)"))
      << result.standard_error;
  EXPECT_TRUE(vanish(mark));
}

TEST(Run, CtrlCTwiceKills) {
  const auto mark = unique_mark();
  Program program({sullae_program(), "run", "-np", "2", "sh", "-c",
                   "trap '' INT TERM; echo up; while :; do sleep 1; done", mark});
  ASSERT_TRUE(program.wait_for_output("[0] up"));
  ASSERT_TRUE(program.wait_for_output("[1] up"));
  program.signal(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds{300});
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(std::chrono::seconds{4}).exit_code, 130);
  EXPECT_TRUE(vanish(mark));
}

TEST(Run, LeavesNothingWhenItIsKilledItself) {
  const auto mark = unique_mark();
  Program program({sullae_program(), "run", "-np", "2", "sh", "-c",
                   "(sleep 600; : " + mark + ") & echo up; sleep 600", mark});
  ASSERT_TRUE(program.wait_for_output("[0] up"));
  ASSERT_TRUE(program.wait_for_output("[1] up"));
  program.signal(SIGKILL);
  program.wait(std::chrono::seconds{20});
  EXPECT_TRUE(vanish(mark));
}

TEST(Run, EndsTheJobAtItsTimeout) {
  const auto mark = unique_mark();
  const auto result = sullae_run({"-np", "2", "--timeout", "0.5", "sh", "-c", "sleep 600", mark});
  EXPECT_EQ(result.exit_code, 124);
  EXPECT_TRUE(contains(result.standard_error, "the job did not end within 0.5 s (--timeout)"))
      << result.standard_error;
  EXPECT_TRUE(vanish(mark));
}

TEST(Run, SaysWhatIsWrongWithItsArguments) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "no program given"},
      {{"sh"}, "how many ranks? Give -np N"},
      {{"-np", "2"}, "no program given"},
      {{"-np", "0", "sh"}, "'0' is not a whole number of 1 or more"},
      {{"-np", "2", "--wrong", "sh"}, "--wrong is not an option of sullae run"},
      {{"-np", "5", "-H", "localhost:2", "true"},
       "-np asks for 5 ranks, but the hosts have 2 slots"},
      {{"-np", "1", "--env", "=x", "true"}, "expected NAME or NAME=VALUE"},
      {{"-np", "1", "--env", "SULLAE_NOT_SET", "true"}, "SULLAE_NOT_SET: is not set here"},
      {{"-np", "1", "/no/such/program"}, "'/no/such/program' cannot be run in"},
      {{"-np", "1", "--output-dir", "/proc/nothing", "true"}, "--output-dir /proc/nothing"},
      {{"--hostfile", "/no/such/file", "true"}, "hostfile /no/such/file: cannot be read"},
  };
  for (const auto& [words, message] : cases) {
    const auto result = sullae_run(words);
    EXPECT_NE(result.exit_code, 0) << message;
    EXPECT_TRUE(contains(result.standard_error + result.standard_output, message))
        << message << "\nbut got\n"
        << result.standard_error << result.standard_output;
  }
}

TEST_F(TwoNetworks, RanksReduceAcrossThem) {
  const auto result =
      run_program(words({"-H", a_ + ":1," + b_ + ":2"}, {INIT_PROGRAM}), over_tcp());
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(sorted_lines(result.standard_output),
            (std::vector<std::string>{"[0] rank 0 of 3, sum 6", "[1] rank 1 of 3, sum 6",
                                      "[2] rank 2 of 3, sum 6"}));
}

}  // namespace
}  // namespace sullae::testing
