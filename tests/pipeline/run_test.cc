// `sullae pipeline` as a user runs it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "support/errors.h"
#include "support/program.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kLate = 3;

class PipelineRun : public ::testing::Test {
 protected:
  void define(const std::string& text) { write_file(file_, text); }
  std::vector<std::string> words(std::vector<std::string> options = {}) const {
    std::vector<std::string> all{sullae_program(), "pipeline", "run", file_};
    all.insert(all.end(), options.begin(), options.end());
    return all;
  }
  ProgramResult run(const std::vector<std::string>& options = {}) const {
    return run_program(words(options));
  }
  ProgramResult show(std::vector<std::string> options = {}) const {
    options.insert(options.begin(), {sullae_program(), "pipeline", "show", file_});
    return run_program(options);
  }
  std::string state_of(const std::string& step) const {
    return json::parse(show({"--json"}).standard_output).at("steps").at(step).at("state");
  }
  fs::path path(const std::string& name) const { return directory_.path() / name; }
  std::string read(const std::string& name) const {
    std::ifstream stream(path(name));
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  // How often a step has written its letter.
  long count(char step) const { return std::ranges::count(read("trace"), step); }

  TemporaryDirectory directory_;
  fs::path file_ = path("nightly.toml");
};

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
      EXPECT_TRUE(contains(show().standard_output, "killed")) << show().standard_output;
    }
  }
  write_file(path("allowed"), "");
  const auto result = run(at);
  EXPECT_EQ(result.exit_code, 0) << result.standard_output;
  EXPECT_EQ(count('a'), 1);
  EXPECT_EQ(count('b'), 3);
  EXPECT_TRUE(vanish(mark)) << "what the killed run had started";
}

TEST_F(PipelineRun, TheScheduledTimeIsPassedOn) {
  define(R"(
every = "day at 02:00"
[environment]
DAY = "{date}"
[steps.a]
run = "echo $SULLAE_PIPELINE_SCHEDULED $DAY {%m/%d} $(basename $SULLAE_PIPELINE_RUN_DIR) > out"
)");
  ASSERT_EQ(
      run_program(words({"--scheduled", "2026-11-24T02:00"}), {{"TZ", "Asia/Seoul"}}).exit_code, 0);
  EXPECT_EQ(read("out"), "2026-11-24T02:00:00+0900 2026-11-24 11/24 2026-11-24T020000+0900\n");
  // By hand it is the last that was due.
  ASSERT_EQ(run().exit_code, 0);
  EXPECT_TRUE(contains(read("out"), "T02:00:00")) << read("out");
}

TEST_F(PipelineRun, WhoIsLateIsKnownBeforeItIs) {
  const auto text = [](const char* deadline) {
    return fmt::format(R"(
{}
[tell]
command = "echo $SULLAE_PIPELINE_EVENT $(date +%s) >> told; cat > said.json"
[steps.a]
run = "sleep 3"
[steps.b]
run = "sleep 1"
after = "a"
)",
                       deadline);
  };
  define(text(""));
  ASSERT_EQ(run({"--scheduled", "2026-11-22"}).exit_code, 0);
  EXPECT_EQ(read("told"), "");
  // The deadline is of the scheduled time: two seconds from now.
  define(text("deadline = '2s'"));
  const auto now = std::to_string(std::time(nullptr));
  const auto scheduled =
      run_program({"date", "-d", "@" + now, "+%Y-%m-%dT%H:%M:%S"}).standard_output.substr(0, 19);
  const auto late = run({"--scheduled", scheduled});
  EXPECT_EQ(late.exit_code, kLate) << late.standard_output;
  EXPECT_TRUE(contains(late.standard_output, "nightly: WILL BE LATE: expected to be over at "))
      << late.standard_output;
  EXPECT_TRUE(contains(late.standard_output, ", late\n")) << late.standard_output;
  const auto told = read("told");
  ASSERT_TRUE(told.starts_with("late ")) << told;
  EXPECT_EQ(std::ranges::count(told, '\n'), 1) << "once";
  const auto said = json::parse(read("said.json"));
  EXPECT_EQ(said.at("event"), "late");
  EXPECT_EQ(said.at("pipeline"), "nightly");
  EXPECT_LE(said.at("foreseen_late").get<long long>(), said.at("deadline").get<long long>());
}

TEST_F(PipelineRun, AMissedDeadlineIsToldWithoutAnyRunBefore) {
  define(R"(
deadline = "1s"
[tell]
command = "echo $SULLAE_PIPELINE_EVENT $SULLAE_PIPELINE_MESSAGE >> told"
of = ["late", "done"]
[steps.a]
run = "sleep 3"
)");
  const auto result = run();
  EXPECT_EQ(result.exit_code, kLate) << result.standard_output;
  EXPECT_TRUE(contains(read("told"), "late nightly: LATE: the deadline, ")) << read("told");
  EXPECT_TRUE(contains(read("told"), "done nightly: done in ")) << read("told");
}

TEST_F(PipelineRun, AWebhookIsTold) {
  Program server({"python3", "-c", R"(
import http.server, sys
class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        print("got", self.rfile.read(int(self.headers["Content-Length"])).decode(), flush=True)
        self.send_response(204); self.end_headers()
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
print("port", server.server_port, flush=True)
server.serve_forever())"});
  ASSERT_TRUE(server.wait_for_output("\n"));
  const auto port = server.output().substr(5, server.output().find('\n') - 5);
  define(fmt::format("[tell]\nwebhook = \"http://127.0.0.1:{}/hook\"\n[steps.a]\nrun = \"false\"\n",
                     port));
  EXPECT_EQ(run().exit_code, 1);
  ASSERT_TRUE(server.wait_for_output("\"event\":\"failed\"")) << server.output();
  EXPECT_TRUE(contains(server.output(), "step a of "));
  // Who does not hear is no reason to fail.
  define("[tell]\nwebhook = \"http://127.0.0.1:1/\"\nof = \"done\"\n[steps.a]\nrun = \"true\"\n");
  const auto deaf = run();
  EXPECT_EQ(deaf.exit_code, 0);
  EXPECT_TRUE(contains(deaf.standard_error, "warning: tell: curl ended with exit code 7"))
      << deaf.standard_error;
}

TEST_F(PipelineRun, TwoRunsAtOnce) {
  const auto text = [](const char* overlap) {
    return fmt::format(
        "overlap = \"{}\"\n[steps.a]\nrun = \"echo $SULLAE_PIPELINE_SCHEDULED >> trace; "
        "test -e allowed || sleep 1000\"\n",
        overlap);
  };
  for (const std::string overlap : {"skip", "queue", "replace"}) {
    fs::remove(path("trace"));
    fs::remove(path("allowed"));
    fs::remove_all(path(".sullae"));
    define(text(overlap.c_str()));
    Program first(words({"--scheduled", "2026-11-24"}));
    ASSERT_TRUE(first.wait_for_output("a: begins"));
    while (read("trace").empty()) std::this_thread::sleep_for(std::chrono::milliseconds{20});
    if (overlap == "skip") {
      const auto second = run({"--scheduled", "2026-11-25"});
      EXPECT_EQ(second.exit_code, 0);
      EXPECT_TRUE(contains(second.standard_output, "is on its way: this one is left out"));
      first.signal(SIGTERM);
      EXPECT_EQ(first.wait().exit_code, 130);
      EXPECT_EQ(std::ranges::count(read("trace"), '\n'), 1);
      continue;
    }
    Program second(words({"--scheduled", "2026-11-25"}));
    ASSERT_TRUE(
        second.wait_for_output(overlap == "queue" ? "this one waits for it" : "it is ended"));
    write_file(path("allowed"), "");
    if (overlap == "queue") first.signal(SIGTERM);
    EXPECT_EQ(first.wait().exit_code, 130) << overlap;
    EXPECT_EQ(second.wait_for_output("nightly: done"), true);
    EXPECT_EQ(second.wait().exit_code, 0);
    EXPECT_EQ(std::ranges::count(read("trace"), '\n'), 2) << overlap;
  }
}

TEST_F(PipelineRun, RepeatsWhenItIsDue) {
  define("every = \"2 seconds\"\n[steps.a]\nrun = \"echo {time} >> trace\"\n");
  Program program(words({"--repeat"}));
  while (std::ranges::count(read("trace"), '\n') < 3)
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait().exit_code, 130);
  const auto list = run_program({sullae_program(), "pipeline", "list", directory_.path()});
  EXPECT_TRUE(contains(list.standard_output, "nightly ")) << list.standard_output;
  EXPECT_TRUE(contains(list.standard_output, "done")) << list.standard_output;
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
                       "--scheduled 'noon': expected a time such as 2026-11-25T02:00:00"));
  EXPECT_TRUE(contains(error({"show", file_, "--scheduled", "2026-11-25"}),
                       "there is no run of 2026-11-25"));
  EXPECT_TRUE(contains(error({}), "A subcommand is required"));
}

}  // namespace
}  // namespace sullae::testing
