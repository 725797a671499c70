// What `sullae pipeline` does, and does not do again.
#include <fmt/format.h>

#include <csignal>
#include <thread>

#include "pipeline/definition.h"
#include "pipeline/pipeline_run.h"
#include "pipeline/state.h"
#include "support/wait_until.h"

namespace sullae::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kThree = R"(
[steps.a]
run = "echo a >> trace; cp in a.out"
needs = "in"
makes = "a.out"
[steps.b]
run = "echo b >> trace; mkdir -p b.out; echo {date} > b.out/day"
makes = "b.out"
[steps.c]
run = "echo c >> trace; cat a.out b.out/day > c.out; echo of c"
needs = ["a.out", "b.out"]
makes = "c.out"
)";

TEST_F(PipelineRun, DoesEachStepOnceWhateverComesAgain) {
  define(kThree);
  write_file(path("in"), "one\n");
  const auto first = run({"--scheduled", "2026-11-24T02:00"});
  EXPECT_EQ(first.exit_code, 0) << first.standard_output << first.standard_error;
  EXPECT_EQ(read("c.out"), "one\n2026-11-24\n");
  EXPECT_TRUE(contains(first.standard_output, "nightly: done in ")) << first.standard_output;
  const auto before = show({"--json"}).standard_output;
  const auto again = run({"--scheduled", "2026-11-24T02:00"});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_TRUE(contains(again.standard_output, "nightly: nothing was left to do"))
      << again.standard_output;
  EXPECT_EQ(count('a') + count('b') + count('c'), 3);
  EXPECT_EQ(show({"--json"}).standard_output, before) << "when it was done";
  // Of another time b is another command, and what c needs is other.
  EXPECT_EQ(run({"--scheduled", "2026-11-25T02:00"}).exit_code, 0);
  EXPECT_EQ(state_of("a"), "kept");
  EXPECT_EQ(count('a'), 1);
  EXPECT_EQ(count('b'), 2);
  EXPECT_EQ(count('c'), 2);
  EXPECT_EQ(read("c.out"), "one\n2026-11-25\n");
}

// What runs every ten minutes has a hundred runs before noon.
TEST_F(PipelineRun, WhatWasDoneLongAgoIsNotDoneAgain) {
  define("[steps.a]\nrun = \"echo a >> trace; echo {date}\"\n");
  const auto pipeline = pipeline::read_pipeline(file_);
  const pipeline::State state(pipeline);
  ASSERT_EQ(run({"--scheduled", "2026-11-24T02:00"}).exit_code, 0);
  auto done = state.done("a").at(0);
  for (int i = 0; i < 200; ++i) {
    done.scheduled += 600;
    state.add("a", done);
  }
  ASSERT_EQ(run({"--scheduled", "2026-11-24T02:00"}).exit_code, 0);
  EXPECT_EQ(count('a'), 1);
}

TEST_F(PipelineRun, DoesAgainWhatChanged) {
  define(kThree);
  const std::vector<std::string> at{"--scheduled", "2026-11-24"};
  write_file(path("in"), "one\n");
  ASSERT_EQ(run(at).exit_code, 0);
  write_file(path("in"), "two\n");
  ASSERT_EQ(run(at).exit_code, 0);
  EXPECT_EQ(count('a'), 2);
  EXPECT_EQ(count('b'), 1);
  EXPECT_EQ(count('c'), 2);
  fs::remove(path("c.out"));
  ASSERT_EQ(run(at).exit_code, 0);
  EXPECT_EQ(count('c'), 3);
  write_file(path("b.out/day"), "by hand\n");
  ASSERT_EQ(run(at).exit_code, 0);
  EXPECT_EQ(count('b'), 2) << "what it made is not there any more";
  // Written anew, and the same.
  write_file(path("in"), "two\n");
  ASSERT_EQ(run(at).exit_code, 0);
  EXPECT_EQ(count('a'), 2);
  std::string text = kThree;
  define(text.replace(text.find("of c"), 4, "of C"));
  ASSERT_EQ(run(at).exit_code, 0);
  EXPECT_EQ(count('c'), 4) << "another command";
}

// They are settings.
TEST_F(PipelineRun, DoesAgainWhereVariablesChanged) {
  const auto define_with = [&](const char* all, const char* own) {
    define(
        fmt::format("[environment]\nA = \"{}\"\n[steps.a]\nrun = \"echo a >> trace; echo $A $B > "
                    "out\"\nmakes = \"out\"\nenvironment = {{B = \"{}\"}}\n",
                    all, own));
  };
  define_with("1", "{date}");
  ASSERT_EQ(run({"--scheduled", "2026-11-24"}).exit_code, 0);
  ASSERT_EQ(run({"--scheduled", "2026-11-25"}).exit_code, 0);
  EXPECT_EQ(read("out"), "1 2026-11-25\n");
  define_with("2", "{date}");
  ASSERT_EQ(run({"--scheduled", "2026-11-25"}).exit_code, 0);
  EXPECT_EQ(read("out"), "2 2026-11-25\n");
  EXPECT_EQ(count('a'), 3);
}

// Of a run that was done once, too.
TEST_F(PipelineRun, WhatIsMissingIsNotNothingToDo) {
  define(kThree);
  write_file(path("in"), "one\n");
  const std::vector<std::string> at{"--scheduled", "2026-11-24"};
  ASSERT_EQ(run(at).exit_code, 0);
  fs::remove(path("in"));
  const auto result = run(at);
  EXPECT_EQ(result.exit_code, 1) << result.standard_output;
  EXPECT_TRUE(contains(result.standard_output, "a: FAILED: needs 'in', which is not there"));
  EXPECT_EQ(state_of("a"), "failed");
}

// The others go on, whatever it has written.
TEST_F(PipelineRun, WhatAStepWritesMayBeAnything) {
  define(R"toml(
[steps.a]
run = "printf 'caf\\351 '; head -c 300000 /dev/zero | tr '\\0' x; exit 5"
[steps.b]
run = "sleep 1; echo b >> trace"
[tell]
command = "cat > said.json"
)toml");
  const auto result = run();
  EXPECT_EQ(result.exit_code, 1) << result.standard_error;
  EXPECT_EQ(count('b'), 1);
  EXPECT_EQ(state_of("a"), "failed");
  EXPECT_EQ(json::parse(read("said.json")).at("event"), "failed");
  EXPECT_LT(show({"--json"}).standard_output.size(), 10'000U);
}

TEST_F(PipelineRun, AStepThatFailsStopsThoseBehindIt) {
  define(R"(
[steps.a]
run = "echo a >> trace; echo the reason; test -e allowed"
[steps.b]
run = "echo b >> trace"
after = "a"
[steps.c]
run = "echo c >> trace"
[steps.d]
run = "true"
needs = "nothing"
[steps.e]
run = "true"
makes = "something"
)");
  const std::vector<std::string> at{"--scheduled", "2026-11-24"};
  const auto failed = run(at);
  EXPECT_EQ(failed.exit_code, 1);
  for (const char* line :
       {"a: FAILED: ended with exit code 1; ", "    the reason",
        "d: FAILED: needs 'nothing', which is not there",
        "e: FAILED: ended well, and has not made 'something'", "nightly: failed in "})
    EXPECT_TRUE(contains(failed.standard_output, line)) << failed.standard_output;
  EXPECT_EQ(state_of("b"), "blocked");
  EXPECT_EQ(state_of("c"), "done");
  EXPECT_TRUE(contains(show().standard_output, "the reason"));
  write_file(path("allowed"), "");
  EXPECT_EQ(run(at).exit_code, 1) << "d and e";
  EXPECT_EQ(count('a'), 2);
  EXPECT_EQ(count('b'), 1);
  EXPECT_EQ(count('c'), 1);
}

// The others go on, and whoever is to know is told.
TEST_F(PipelineRun, ThatCannotBeNotedIsDone) {
  define(R"(
[tell]
command = "echo $SULLAE_PIPELINE_EVENT > told"
[steps.a]
run = "cd .sullae/pipelines/nightly/runs/*; until mkdir -p run.json/in-its-place; do rm run.json; done; false"
[steps.b]
run = "sleep 1; echo b >> trace"
[steps.c]
run = "echo c >> trace"
after = "b"
)");
  const auto ended = run();
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_TRUE(contains(ended.standard_output, "what becomes of steps cannot be noted"))
      << ended.standard_output;
  EXPECT_EQ(read("told"), "failed\n");
  EXPECT_EQ(read("trace"), "b\nc\n");
}

// Also where it is not known that a step was done, which it is.
TEST_F(PipelineRun, WhatWasDoneIsDoneThoughItCannotBeNoted) {
  define(R"(
[steps.a]
run = "rm -rf .sullae/pipelines/nightly/steps; echo > .sullae/pipelines/nightly/steps; echo a >> trace"
[steps.b]
run = "echo b >> trace"
after = "a"
)");
  const auto ended = run();
  EXPECT_EQ(ended.exit_code, 0) << ended.standard_output << ended.standard_error;
  EXPECT_TRUE(contains(ended.standard_output, "what becomes of steps cannot be noted"))
      << ended.standard_output;
  EXPECT_EQ(state_of("a"), "done");
  EXPECT_EQ(read("trace"), "a\nb\n");
}

TEST_F(PipelineRun, AFailureIsToldByItsOwnWords) {
  define(R"(
[steps.a]
run = "test -e again || echo the first reason; touch again; false"
)");
  const std::vector<std::string> at{"--scheduled", "2026-11-24"};
  EXPECT_TRUE(contains(run(at).standard_output, "    the first reason"));
  const auto second = run(at).standard_output;
  EXPECT_TRUE(contains(second, "a: FAILED: ended with exit code 1, and has printed nothing"))
      << second;
}

TEST_F(PipelineRun, StepsHaveAttemptsAndATime) {
  define(R"(
[steps.a]
run = "echo a >> trace; test $(grep -c a trace) -ge 3"
attempts = 3
[steps.slow]
run = "sleep 1000 & sleep 1000"
time = "1s"
)");
  const auto result = run({"--scheduled", "2026-11-24"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(count('a'), 3);
  EXPECT_TRUE(contains(result.standard_output, "a: ended with exit code 1; attempt 3 of 3"))
      << result.standard_output;
  EXPECT_TRUE(contains(result.standard_output, "slow: FAILED: took longer than its time of 1s"))
      << result.standard_output;
  EXPECT_EQ(state_of("a"), "done");
}

TEST_F(PipelineRun, RunsSideBySideAsManyAsAreAllowed) {
  const auto steps = [](int parallel) {
    std::string text = fmt::format("parallel = {}\n", parallel);
    for (const char step : {'a', 'b', 'c'})
      text += fmt::format(
          "[steps.{0}]\nrun = \"echo + >> trace; grep -c + trace > /dev/null; sleep 0.5; echo - >> "
          "trace\"\n",
          step);
    return text;
  };
  define(steps(0));
  ASSERT_EQ(run({"--scheduled", "2026-11-24"}).exit_code, 0);
  EXPECT_TRUE(read("trace").starts_with("+\n+\n+\n")) << read("trace");
  fs::remove(path("trace"));
  define(steps(1));
  ASSERT_EQ(run({"--scheduled", "2026-11-25"}).exit_code, 0);
  EXPECT_EQ(read("trace"), "+\n-\n+\n-\n+\n-\n");
}

TEST_F(PipelineRun, AKilledRunIsGoneOnWith) {
  const std::string mark = unique_mark();
  define(fmt::format(R"toml(
[steps.a]
run = "echo a >> trace; touch a.out"
makes = "a.out"
[steps.b]
run = "echo b >> trace; test -e allowed || (setsid sh -c 'sleep 1000; : {0}' & sh -c 'sleep 1000; : {0}')"
after = "a"
)toml",
                     mark));
  const std::vector<std::string> at{"--scheduled", "2026-11-24"};
  for (const int signal : {SIGKILL, SIGTERM}) {
    Program program(words(at));
    ASSERT_TRUE(program.wait_for_output("b: begins"));
    while (processes_with(mark).size() < 3)
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
    EXPECT_TRUE(contains(show().standard_output, "running")) << show().standard_output;
    program.signal(signal);
    const auto result = program.wait();
    if (signal == SIGTERM) {
      EXPECT_EQ(result.exit_code, 130) << result.standard_output;
      EXPECT_TRUE(contains(result.standard_output, "b: interrupted"));
      EXPECT_EQ(state_of("b"), "interrupted");
    } else {
      const std::string shown = show().standard_output;
      EXPECT_TRUE(contains(shown, "killed")) << shown;
      EXPECT_NE(shown.find("killed"), shown.rfind("killed")) << "the run, and its step\n" << shown;
    }
  }
  write_file(path("allowed"), "");
  const auto result = run(at);
  EXPECT_EQ(result.exit_code, 0) << result.standard_output;
  EXPECT_EQ(count('a'), 1);
  EXPECT_EQ(count('b'), 3);
  EXPECT_TRUE(vanish(mark)) << "what the killed run had started";
}

// Of a file that takes hours to read.
TEST_F(PipelineRun, IsInterruptedWhileItReadsWhatAStepNeeds) {
  const std::string mark = unique_mark();
  define(fmt::format(R"(
[steps.slow]
run = "touch begun; sh -c 'sleep 1000; : {}'"
time = "2s"
[steps.z]
run = "echo z >> trace"
needs = "big"
)",
                     mark));
  write_file(path("big"), "");
  fs::resize_file(path("big"), std::uintmax_t{1} << 40);
  Program program(words({"--scheduled", "2026-11-24"}));
  wait_until([&] { return fs::exists(path("begun")); });
  EXPECT_TRUE(vanish(mark)) << "its time is over";
  program.signal(SIGTERM);
  const auto result = program.wait();
  EXPECT_EQ(result.exit_code, 130) << result.standard_output;
  EXPECT_EQ(state_of("z"), "waiting");
  EXPECT_EQ(count('z'), 0);
}

TEST_F(PipelineRun, MistakesAreNamed) {
  const auto error = [&](const std::vector<std::string>& options) {
    std::vector<std::string> all{sullae_program(), "pipeline"};
    all.insert(all.end(), options.begin(), options.end());
    const auto result = run_program(all);
    EXPECT_NE(result.exit_code, 0);
    return result.standard_error;
  };
  EXPECT_TRUE(contains(error({"run", file_}), file_.string()));
  define("[steps.a]\nrun = \"true\"\n");
  EXPECT_TRUE(contains(error({"run", file_, "--repeat"}),
                       "does not say when it is due: expected every = \"day at 02:00\""));
  EXPECT_TRUE(contains(error({"run", file_, "--scheduled", "noon"}),
                       "--scheduled 'noon': expected a time such as 2026-11-25T06:00:00"));
  EXPECT_TRUE(contains(error({"show", file_, "--scheduled", "2026-11-25"}),
                       "there is no run of 2026-11-25"));
  EXPECT_TRUE(contains(error({}), "sullae pipeline is followed by one of run, "));
}

}  // namespace
}  // namespace sullae::testing
