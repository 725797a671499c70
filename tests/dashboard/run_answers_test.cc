// Runs, as clients see them.
#include <signal.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <thread>

#include "dashboard/fixture.h"
#include "support/errors.h"
#include "support/program.h"
#include "support/wait_until.h"

namespace sullae::testing {
namespace {

using nlohmann::json;

class RunAnswers : public DashboardTest {
 protected:
  std::vector<std::string> names(const std::string& query) {
    std::vector<std::string> found;
    const auto answer = get("/api/runs?" + query);
    for (const auto& one : answer.at("runs")) found.push_back(one.at("id"));
    return found;
  }
};
using Names = std::vector<std::string>;

TEST_F(RunAnswers, TheTableIsSearchedSortedAndTurned) {
  run("a", 3, {.settings = {{"lr", "0.1"}, {"recipe", "mnist"}}}).completed();
  run("b", 9, {.settings = {{"lr", "0.2"}, {"recipe", "mnist"}}}).failed("why");
  run("c", 1, {.settings = {{"lr", "0.1"}, {"recipe", "nsmc"}}}).completed();
  std::this_thread::sleep_for(std::chrono::milliseconds{2});  // times are in milliseconds
  RunLog(root_ / "d", {}).completed();                        // without a point
  EXPECT_EQ(names("sort=name&descending=0"), (Names{"a", "b", "c", "d"}));
  EXPECT_EQ(names("sort=started").front(), "d");
  EXPECT_EQ(names("sort=train/loss&descending=0"), (Names{"b", "a", "c", "d"}));
  EXPECT_EQ(names("sort=train%2Floss&descending=1"), (Names{"c", "a", "b", "d"}));
  EXPECT_EQ(names("sort=step&limit=2"), (Names{"b", "a"}));
  EXPECT_EQ(names("sort=step&limit=2&offset=2"), (Names{"c", "d"}));
  EXPECT_EQ(names("sort=step&offset=17"), Names{});
  EXPECT_EQ(names("search=LR%3D0.1+mnist"), Names{"a"});
  EXPECT_EQ(names("search=none"), Names{});
  EXPECT_EQ(names("state=failed"), Names{"b"});
  const auto found = get("/api/runs?limit=1");
  EXPECT_EQ(found.at("total"), 4);
  EXPECT_EQ(found.at("matching"), 4);
  EXPECT_EQ(found.at("states"), (json{{"completed", 3}, {"failed", 1}}));
  EXPECT_EQ(found.at("tags"), (json{"train/loss", "train/lr"}));
  EXPECT_TRUE(contains(error("/api/runs?limit=x", 400), "limit: expected a number"));
}

TEST_F(RunAnswers, ARunHasItsSettingsTagsAndNotes) {
  auto log = run("x/y z", 5, {.settings = {{"lr", "0.1"}}, .ranks = 3});
  log.note("resuming after epoch 1");
  const auto found = get("/api/run?id=x%2Fy%20z");
  EXPECT_EQ(found.at("state"), "running");
  EXPECT_EQ(found.at("over"), false);
  EXPECT_EQ(found.at("ranks"), 3);
  EXPECT_EQ(found.at("step"), 5);
  EXPECT_EQ(found.at("settings").at("lr"), "0.1");
  EXPECT_EQ(found.at("tags"), (json{{{"tag", "train/loss"}, {"points", 5}, {"last", 0.2}},
                                    {{"tag", "train/lr"}, {"points", 5}, {"last", 0.1}}}));
  EXPECT_EQ(found.at("notes").at(0).at("text"), "resuming after epoch 1");
  EXPECT_EQ(error("/api/run?id=x", 404), "there is no run 'x'");
  EXPECT_EQ(error("/api/run?id=../../etc", 404), "there is no run '../../etc'");
  EXPECT_EQ(error("/api/run", 400), "expected id=…");
}

TEST_F(RunAnswers, CurvesAreAsFewPointsAsAsked) {
  run("a", 1000);
  run("b", 10);
  const auto found = get("/api/curves?run=a&run=b&tag=train/loss&tag=none&points=40");
  ASSERT_EQ(found.at("runs").size(), 2U);
  const auto& long_one = found.at("runs")[0].at("curves").at(0);
  EXPECT_EQ(long_one.at("points"), 1000);
  EXPECT_LE(long_one.at("x").size(), 40U);
  EXPECT_EQ(long_one.at("x")[0], 1);
  EXPECT_EQ(long_one.at("y")[0], 1);
  EXPECT_EQ(long_one.at("x").back(), 1000);
  EXPECT_EQ(found.at("runs")[1].at("curves").at(0).at("x").size(), 10U);
  const auto closer = get("/api/curves?run=a&tag=train/loss&points=40&from=100&to=120")
                          .at("runs")[0]
                          .at("curves")[0];
  EXPECT_EQ(closer.at("x")[0], 99) << "a line comes in from the left";
  EXPECT_EQ(closer.at("x").back(), 121);
  EXPECT_EQ(closer.at("x").size(), 23U);
  const auto over_time =
      get("/api/curves?run=b&tag=train/loss&x=time").at("runs")[0].at("curves")[0];
  EXPECT_EQ(over_time.at("x")[0], 0);
  EXPECT_TRUE(contains(error("/api/curves?run=a", 400), "expected run=… and tag=…"));
  EXPECT_TRUE(contains(error("/api/curves?run=a&tag=b&x=y", 400), "x=y: expected step or time"));
  const auto with_none = get("/api/curves?run=q&run=a&tag=train/loss").at("runs");
  EXPECT_EQ(with_none[0].at("problems")[0], "there is no run 'q'");
  EXPECT_EQ(with_none[1].at("curves").size(), 1U) << "the others are shown";
  std::string many = "/api/curves?tag=b";
  for (int i = 0; i < 101; ++i) many += "&run=a";
  EXPECT_EQ(error(many, 413), "expected at most 100 runs");
}

TEST_F(RunAnswers, NumbersThatAreNoneAreTexts) {
  RunLog(root_ / "a", {}).scalars(1, {{"loss", std::nan("")}});
  EXPECT_EQ(get("/api/runs").at("runs")[0].at("latest").at("loss"), "NaN");
  EXPECT_EQ(get("/api/curves?run=a&tag=loss").at("runs")[0].at("curves")[0].at("y")[0], "NaN");
}

TEST_F(RunAnswers, WhatCannotBeReadDoesNotHideTheRest) {
  run("a", 3, {.settings = {{"lr", "0.1"}}}).completed();
  get("/api/runs");
  std::filesystem::remove(root_ / "a" / "metrics.jsonl");
  std::filesystem::create_directory(root_ / "a" / "metrics.jsonl");
  const auto found = ask("/api/run?id=a");
  if (found.status == 404) return;  // it was looked for again meanwhile, and is no run any more
  EXPECT_TRUE(contains(found.json().at("problems")[0], "metrics.jsonl: is no file"));
  EXPECT_EQ(found.json().at("settings").at("lr"), "0.1");
}

TEST_F(RunAnswers, NamesNeedNotBeText) {
  run("latin\xe9", 1).completed();
  run("latin\xe8", 1).completed();
  run("손", 1).completed();
  const auto found = names("sort=name&descending=0");
  EXPECT_EQ(found, (Names{"latin%E8", "latin%E9", "손"}));
  EXPECT_EQ(get("/api/run?id=latin%25E9").at("id"), "latin%E9");
}

TEST_F(RunAnswers, WhatIsLeftIsOfThisBeginning) {
  put("a/run.json",
      R"({"sullae_run":1,"name":"a","started":100,"written":100,"host":"h","pid":1,"ranks":1,"job":"","settings":{},"step":4,"steps":10,"latest":{"a":"nan","b":"inf"}})");
  put("a/metrics.jsonl",
      "{\"step\":1,\"time\":100,\"a\":1}\n{\"step\":2,\"time\":101,\"a\":1}\n{\"step\":2,\"time\":"
      "90000,\"goes_on\":true}\n"
      "{\"step\":3,\"time\":90010,\"a\":1}\n{\"step\":5,\"time\":90014,\"a\":1}\n");
  const auto found = get("/api/run?id=a");
  EXPECT_EQ(found.at("seconds_a_step"), 2);
  EXPECT_EQ(found.at("latest").at("b"), "Infinity");
}

TEST_F(RunAnswers, WhatIsWrittenIsSeen) {
  auto log = run("a", 1);
  const std::string curve = "/api/curves?run=a&tag=train/loss";
  EXPECT_EQ(get(curve).at("runs")[0].at("curves")[0].at("points"), 1);
  log.scalars(2, {{"train/loss", 7}});
  EXPECT_EQ(get(curve).at("runs")[0].at("curves")[0].at("points"), 2);
  wait_until([&] { return get("/api/runs").at("runs")[0].at("step") == 2; });
  EXPECT_EQ(get("/api/runs").at("runs")[0].at("latest").at("train/loss"), 7);
  log.completed();
  wait_until([&] { return get("/api/runs").at("runs")[0].at("state") == "completed"; });
  run("b", 1);
  wait_until([&] { return get("/api/runs").at("total") == 2; });
  std::filesystem::remove_all(root_ / "a");
  wait_until([&] { return get("/api/runs").at("total") == 1; });
}

TEST_F(RunAnswers, ADamagedRunIsShownAsOne) {
  put("a/run.json", "{");
  put("a/metrics.jsonl", "nonsense\n{\"step\":1,\"loss\":2}\n");
  const auto found = get("/api/runs").at("runs")[0];
  EXPECT_EQ(found.at("state"), "unreadable");
  EXPECT_TRUE(contains(found.at("reason"), "a/run.json: no record of a run"));
  const auto shown = get("/api/run?id=a");
  EXPECT_EQ(shown.at("damaged"), 1);
  EXPECT_EQ(shown.at("tags").size(), 1U) << "what can be read is shown";
}

// Fifty runs, of which half are killed at some moment: nothing of what any has written is lost, and
// each is what it is.
TEST_F(RunAnswers, FiftyWritersSomeOfThemKilled) {
  constexpr int kWriters = 50;
  std::vector<std::unique_ptr<Program>> writers;
  for (int i = 0; i < kWriters; ++i)
    writers.push_back(std::make_unique<Program>(std::vector<std::string>{
        RUN_LOG_PROGRAM, root_ / std::to_string(i), i % 2 == 0 ? "300" : "100000000"}));
  for (int i = 1; i < kWriters; i += 2) {
    ASSERT_TRUE(writers[static_cast<std::size_t>(i)]->wait_for_output(
        "\n" + std::to_string(10 * i) + "\n"));
    get("/api/runs");
    writers[static_cast<std::size_t>(i)]->signal(SIGKILL);
  }
  for (int i = 0; i < kWriters; ++i) {
    const auto said = writers[static_cast<std::size_t>(i)]->wait().standard_output;
    const long last = std::stol(said.substr(said.rfind('\n', said.size() - 2) + 1));
    const auto id = std::to_string(i);
    // What is in the folder is known a second late.
    wait_until([&] {
      const auto answer = ask("/api/run?id=" + id);
      return answer.status == 200 && answer.json().at("over") == true;
    });
    const auto found = get("/api/run?id=" + id);
    EXPECT_EQ(found.at("state"), i % 2 == 0 ? "completed" : "killed");
    EXPECT_EQ(found.at("damaged"), 0);
    const auto points = found.at("tags").at(0).at("points").get<long>();
    EXPECT_GE(points, last) << i;
    EXPECT_LE(points, last + 1) << i;
  }
}

}  // namespace
}  // namespace sullae::testing
