// When `sullae pipeline` runs, by when it is to be over, and who is told.
#include <fmt/format.h>

#include <csignal>
#include <ctime>
#include <thread>

#include "pipeline/pipeline_run.h"

namespace sullae::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kLate = 3;

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
  EXPECT_EQ(read("out"), "2026-11-24T02:00:00+0900 2026-11-24 11/24 2026-11-23T170000Z\n");
  // The same for whoever is elsewhere.
  const auto shown = run_program(
      {sullae_program(), "pipeline", "show", file_, "--scheduled", "2026-11-24T02:00+0900"},
      {{"TZ", "America/New_York"}});
  EXPECT_TRUE(contains(shown.standard_output, "runs/2026-11-23T170000Z")) << shown.standard_error;
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
  const auto made_up = run({"--scheduled", "2026-11-20", "--no-deadline"});
  EXPECT_EQ(made_up.exit_code, 0) << made_up.standard_output;
  EXPECT_FALSE(contains(made_up.standard_output, "late")) << made_up.standard_output;
}

TEST_F(PipelineRun, ADayIsTheTimeThatItIsDueAt) {
  define("every = \"day at 02:00\"\n[steps.a]\nrun = \"echo {time} >> out\"\n");
  ASSERT_EQ(run({"--scheduled", "2026-11-20"}).exit_code, 0);
  EXPECT_TRUE(contains(read("out"), "2026-11-20T02:00:00")) << read("out");
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

TEST_F(PipelineRun, OfThoseThatWaitTheEarliestIsNext) {
  define(R"(
overlap = "queue"
deadline = "1s"
[tell]
command = "echo $SULLAE_PIPELINE_EVENT {date} >> told"
[steps.a]
run = "echo {date} >> trace; while ! test -e allowed; do sleep 0.05; done"
)");
  Program first(words({"--scheduled", "2026-11-20"}));
  ASSERT_TRUE(first.wait_for_output("a: begins"));
  // Long over, which is told before they begin.
  Program late(words({"--scheduled", "2026-11-23"}));
  ASSERT_TRUE(late.wait_for_output("LATE: the deadline, "));
  Program early(words({"--scheduled", "2026-11-21"}));
  ASSERT_TRUE(early.wait_for_output("LATE: the deadline, "));
  EXPECT_EQ(read("trace"), "2026-11-20\n");
  write_file(path("allowed"), "");
  EXPECT_EQ(first.wait().exit_code, kLate);
  EXPECT_EQ(early.wait().exit_code, kLate);
  EXPECT_EQ(late.wait().exit_code, kLate);
  EXPECT_EQ(read("trace"), "2026-11-20\n2026-11-21\n2026-11-23\n");
  EXPECT_EQ(std::ranges::count(read("told"), '\n'), 3) << read("told");
  EXPECT_TRUE(fs::is_empty(path(".sullae/pipelines/nightly/waiting")));
}

TEST_F(PipelineRun, WhoIsToldHoldsUpNoStep) {
  define(R"(
[tell]
command = "echo told >> trace; while ! test -e allowed; do sleep 0.05; done; echo heard >> trace"
of = "failed"
[steps.a]
run = "exit 1"
[steps.b]
run = "while ! grep -q told trace; do sleep 0.05; done; echo b >> trace"
[steps.c]
run = "echo c >> trace; touch allowed"
after = "b"
)");
  EXPECT_EQ(run().exit_code, 1);
  EXPECT_EQ(read("trace"), "told\nb\nc\nheard\n");
}

TEST_F(PipelineRun, RepeatsWhenItIsDue) {
  define("every = \"2 seconds\"\n[steps.a]\nrun = \"echo {time} >> trace\"\n");
  Program program(words({"--repeat"}));
  while (std::ranges::count(read("trace"), '\n') < 3)
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
  program.signal(SIGTERM);
  const auto result = program.wait();
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_TRUE(contains(result.standard_output, "nightly: done")) << result.standard_output;
  // The last of its runs may have been on its way.
  const auto list = run_program({sullae_program(), "pipeline", "list", directory_.path()});
  EXPECT_TRUE(contains(list.standard_output, "nightly ")) << list.standard_output;
  EXPECT_TRUE(contains(list.standard_output, "done") ||
              contains(list.standard_output, "interrupted"))
      << list.standard_output;
}

}  // namespace
}  // namespace sullae::testing
