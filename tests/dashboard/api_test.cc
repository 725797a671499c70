// Who may ask, for what, and what else is there than runs.
#include "dashboard/fixture.h"
#include "support/errors.h"
#include "support/program.h"
#include "support/wait_until.h"

namespace sullae::testing {
namespace {

using nlohmann::json;

class DashboardApi : public DashboardTest {
 protected:
  static constexpr const char* kPaths[] = {"/api/overview", "/api/runs", "/api/pipelines",
                                           "/api/models"};
};

TEST_F(DashboardApi, AnEmptyFolderIsNoMistakeAndNoneIs) {
  for (const char* const path : kPaths) get(path);
  EXPECT_EQ(get("/api/overview").at("runs"), 0);
  options_.folder = root_ / "none";
  EXPECT_TRUE(contains(error_of<InputError>([&] { dashboard::Dashboard{options_}; }),
                       "none: is no folder"));
  options_.folder = root_;
  options_.port = dashboard().port();
  EXPECT_TRUE(
      contains(error_of([&] { dashboard::Dashboard{options_}; }), std::to_string(options_.port)));
}

TEST_F(DashboardApi, NothingIsChangedHere) {
  for (const char* const method : {"POST", "PUT", "DELETE"}) {
    const auto answer = HttpClient(dashboard().port()).ask(method, "/api/runs", "{}");
    EXPECT_EQ(answer.status, 405);
    EXPECT_TRUE(contains(answer.body, "expected GET: nothing is changed here"));
    EXPECT_EQ(answer.headers.at("allow"), "GET, HEAD");
  }
  EXPECT_EQ(HttpClient(dashboard().port()).ask("HEAD", "/api/runs", "").status, 200);
  HttpClient client(dashboard().port());
  client.send("GET /api/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000000\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 413) << "nothing is read";
  EXPECT_EQ(HttpClient(dashboard().port()).ask("GET", "/api/runs", "{}").status, 400);
  EXPECT_EQ(error("/api/none", 404), "there is nothing at /api/none");
  EXPECT_EQ(error("/../etc/passwd", 404), "there is nothing at /../etc/passwd");
}

TEST_F(DashboardApi, ThePageComesFromHereAlone) {
  for (const auto& [path, type] : {std::pair{"/", "text/html; charset=utf-8"},
                                   {"/dashboard.js", "text/javascript; charset=utf-8"},
                                   {"/dashboard.css", "text/css; charset=utf-8"}}) {
    const auto answer = ask(path);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.at("content-type"), type);
    EXPECT_TRUE(contains(answer.headers.at("content-security-policy"), "default-src 'none'"));
    EXPECT_FALSE(contains(answer.body, "https:"));
  }
}

TEST_F(DashboardApi, WhatHasNotChangedIsNotSentAgain) {
  run("a", 1).completed();
  const auto first = ask("/api/curves?run=a&tag=train/loss");
  const auto tag = first.headers.at("etag");
  const auto again = ask("/api/curves?run=a&tag=train/loss", {{"If-None-Match", tag}});
  EXPECT_EQ(again.status, 304);
  EXPECT_TRUE(again.body.empty());
  EXPECT_FALSE(again.headers.contains("content-length"));
  // As proxies say it, and caches that have several.
  for (const std::string& known : {"W/" + tag, "\"other\", " + tag, std::string("*")})
    EXPECT_EQ(ask("/api/curves?run=a&tag=train/loss", {{"If-None-Match", known}}).status, 304)
        << known;
  RunLog(root_ / "a", {}, RunLog::Earlier::continued).scalars(2, {{"train/loss", 3}});
  EXPECT_EQ(ask("/api/curves?run=a&tag=train/loss", {{"If-None-Match", tag}}).status, 200);
}

TEST_F(DashboardApi, PagesOfOthersGetNothing) {
  EXPECT_EQ(ask("/api/runs", {{"Host", "evil.example"}}).status, 403);
  EXPECT_EQ(ask("/api/runs", {{"Origin", "http://evil.example"}}).status, 403);
  EXPECT_EQ(ask("/api/runs", {{"Origin", "http://localhost"}}).status, 200);
}

TEST_F(DashboardApi, WhereOthersReachItATokenIsNeeded) {
  options_.host = "0.0.0.0";
  const auto token = dashboard().token();
  ASSERT_GE(token.size(), 32U);
  EXPECT_EQ(ask("/").status, 200) << "which asks for the token";
  for (const char* const path : kPaths) {
    EXPECT_EQ(ask(path).status, 401);
    EXPECT_EQ(ask(path, {{"Authorization", "Bearer wrong-wrong-wrong"}}).status, 401);
    EXPECT_EQ(ask(path, {{"Authorization", "Bearer " + token}}).status, 200);
  }
  EXPECT_EQ(ask("/api/none").status, 401) << "what there is, is nobody's business either";
}

TEST_F(DashboardApi, ATokenKeepsOthersOfThisMachineOut) {
  options_.draws_token = true;
  EXPECT_EQ(ask("/api/runs").status, 401);
  EXPECT_EQ(ask("/api/runs", {{"Authorization", "Bearer " + dashboard().token()}}).status, 200);
}

TEST_F(DashboardApi, TokensOfAFile) {
  const auto file = directory_.path() / "tokens.toml";
  std::ofstream(file)
      << "[[token]]\nname = \"kim\"\nrole = \"read\"\ntoken = \"0123456789abcdef\"\n";
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  options_.tokens_file = file;
  EXPECT_EQ(ask("/api/runs").status, 401);
  EXPECT_EQ(ask("/api/runs", {{"Authorization", "Bearer 0123456789abcdef"}}).status, 200);
  EXPECT_EQ(dashboard().token(), "");
}

TEST_F(DashboardApi, ModelsAndWhatBecomesOfThem) {
  put("models/m/1/model.ckpt", "12345");
  put("models/m/2/model.pt", "123");
  put("models/packed/1/model.pt2", "1");
  put("models/m/.serving.json", R"({"serving": 1, "withdrawn": [2]})");
  const auto model = get("/api/models").at("models").at(0);
  EXPECT_EQ(model.at("id"), "models/m");
  EXPECT_EQ(model.at("served"), false);
  EXPECT_EQ(model.at("learning"), false);
  ASSERT_EQ(model.at("versions").size(), 2U);
  const auto& newest = model.at("versions")[0];
  EXPECT_EQ(newest.at("version"), 2);
  EXPECT_EQ(newest.at("kind"), "TorchScript");
  EXPECT_EQ(newest.at("withdrawn"), true);
  EXPECT_EQ(model.at("versions")[1].at("answers"), true);
  EXPECT_EQ(model.at("versions")[1].at("bytes"), 5);
  EXPECT_EQ(get("/api/models").at("models").at(1).at("versions")[0].at("kind"), "AOTInductor");
}

TEST_F(DashboardApi, PipelinesTheirStepsAndLogs) {
  put("nightly.toml",
      "every = \"day at 02:00\"\n[steps.a]\nrun = \"echo first; echo second\"\nmakes = "
      "\"out\"\n[steps.b]\nrun = \"false\"\nafter = \"a\"\n");
  put("pyproject.toml", "[something]\nelse = true\n");
  put("broken.toml", "[steps.a]\nruns = \"true\"\n");
  ASSERT_EQ(run_program({sullae_program(), "pipeline", "run", root_ / "nightly.toml", "--scheduled",
                         "2026-11-24T02:00"})
                .exit_code,
            1);
  const auto list = get("/api/pipelines");
  ASSERT_EQ(list.at("pipelines").size(), 1U);
  EXPECT_EQ(list.at("pipelines")[0].at("id"), "nightly.toml");
  EXPECT_EQ(list.at("pipelines")[0].at("runs")[0].at("state"), "failed");
  EXPECT_GT(list.at("pipelines")[0].at("due"), 0);
  EXPECT_EQ(list.at("problems").size(), 1U)
      << "the file with a mistake, and not the one for something else";
  const auto shown = get("/api/pipeline?id=nightly.toml");
  EXPECT_EQ(shown.at("run").at("state"), "failed");
  ASSERT_EQ(shown.at("run_steps").size(), 2U);
  EXPECT_EQ(shown.at("run_steps")[0].at("step"), "a");
  const auto when = shown.at("run").at("run").get<std::string>();
  EXPECT_EQ(get("/api/pipeline?id=nightly.toml&run=" + when.substr(0, 19)).at("run").at("run"),
            when);
  const auto log = get("/api/step-log?id=nightly.toml&step=a");
  EXPECT_TRUE(contains(log.at("text"), "first\nsecond\n"));
  EXPECT_EQ(get("/api/step-log?id=nightly.toml&step=a&from=" + log.at("end").dump()).at("text"),
            "");
  EXPECT_EQ(error("/api/pipeline?id=config", 404), "there is no pipeline 'config'");
  EXPECT_EQ(error("/api/step-log?id=nightly.toml&step=c", 404), "there is no step 'c'");
  EXPECT_TRUE(
      contains(error("/api/pipeline?id=nightly.toml&run=2020-01-01", 404), "there is no run of"));
  EXPECT_TRUE(contains(error("/api/pipeline?id=nightly.toml&run=x", 400), "run"));
}

}  // namespace
}  // namespace sullae::testing
