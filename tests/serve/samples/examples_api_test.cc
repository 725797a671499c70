// Operators correct samples while the server runs, and while it is killed.
#include <gtest/gtest.h>

#include <csignal>
#include <set>
#include <thread>

#include "serve/models.h"
#include "serve/server_program.h"
#include "support/errors.h"
#include "support/http_client.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using nlohmann::json;

class ExamplesApiTest : public ::testing::Test {
 protected:
  ExamplesApiTest() {
    put_text_model(model_);
    start();
  }
  void start() { server_.emplace(directory_.path()); }
  json all(HttpClient& http) { return http.get("/v1/models/m/examples?limit=10000").json(); }

  TemporaryDirectory directory_;
  std::filesystem::path model_ = directory_.path() / "m";
  std::optional<ServerProgram> server_;
};

TEST_F(ExamplesApiTest, KeepsWhatOperatorsSay) {
  HttpClient http(server_->port());
  const auto answer = http.post("/v1/models/m/examples", json::parse(R"({"examples": [
      {"text": "정말 좋아요", "label": "good"}, {"text": "b", "label": "bad", "key": "7"}]})"));
  EXPECT_EQ(
      answer.json(),
      json::parse(R"({"added": 2, "replaced": 0, "removed": 0, "unchanged": 0, "revision": 2})"));
  http.post("/v1/models/m/examples",
            json::parse(R"({"examples": [{"text": "b", "label": "good", "key": "7"}]})"));
  const auto changed = http.get("/v1/models/m/examples?since=2&limit=5").json();
  EXPECT_EQ(changed["revision"], 3);
  EXPECT_EQ(changed["size"], 2);
  ASSERT_EQ(changed["examples"].size(), 1U);
  EXPECT_EQ(changed["examples"][0]["label"], "good");
  EXPECT_EQ(changed["examples"][0]["author"], "anonymous");
}

TEST_F(ExamplesApiTest, TakesBackWhatWasSaidByKeyOrByText) {
  HttpClient http(server_->port());
  http.post("/v1/models/m/examples", json::parse(R"({"examples": [
      {"text": "a", "label": "good"}, {"text": "b", "label": "bad", "key": "7"}]})"));
  const auto answer = http.post("/v1/models/m/examples", json::parse(R"({"examples": [
      {"text": "a", "label": null}, {"key": "7", "label": null}, {"key": "8", "label": null}]})"));
  EXPECT_EQ(
      answer.json(),
      json::parse(R"({"added": 0, "replaced": 0, "removed": 2, "unchanged": 1, "revision": 4})"));
  const auto changed = all(http);
  EXPECT_EQ(changed["size"], 0);
  ASSERT_EQ(changed["examples"].size(), 2U) << "who follows the changes learns of it";
  EXPECT_EQ(changed["examples"][1]["key"], "7");
  EXPECT_TRUE(changed["examples"][1]["label"].is_null());
  EXPECT_FALSE(changed["examples"][1].contains("text"));
  EXPECT_EQ(http.get("/v1/models/m/online").json()["waiting"], 0);
}

TEST_F(ExamplesApiTest, SaysWhatIsWrongAndKeepsNothingOfIt) {
  HttpClient http(server_->port());
  const std::pair<const char*, const char*> cases[] = {
      {"{}", "expected {\"examples\": ["},
      {R"({"examples": [3]})", "example 0: expected an object"},
      {R"({"examples": [{"text": "a", "label": "good"}, {"text": "a"}]})",
       "example 1: \"label\": expected a text"},
      {R"({"examples": [{"text": "a", "label": "fair"}]})",
       "example 0: the model has no label 'fair'"},
      {R"({"examples": [{"text": "", "label": "good"}]})", "example 0: \"text\": expected a text"},
      {R"({"examples": [{"label": null}]})", "example 0: \"text\": expected a text"},
      {R"({"examples": [{"text": "a", "label": "good", "weight": 2}]})",
       "example 0: 'weight': expected text, label and key"}};
  const auto long_key =
      json{{"examples", {{{"text", "a"}, {"label", "good"}, {"key", std::string(1025, 'k')}}}}};
  const auto refused = http.post("/v1/models/m/examples", long_key);
  EXPECT_EQ(refused.status, 400);
  EXPECT_TRUE(contains(refused.json()["error"], "a key of 1025 bytes: expected at most 1024"));
  for (const auto& [body, message] : cases) {
    const auto answer = http.post("/v1/models/m/examples", std::string(body));
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_TRUE(contains(answer.json()["error"], message)) << answer.body;
  }
  EXPECT_EQ(http.get("/v1/models/m/examples?since=x").status, 400);
  EXPECT_EQ(http.get("/v1/models/n/examples").status, 404);
  EXPECT_EQ(all(http)["size"], 0);
}

// What is acknowledged from then on is in a file that has a name.
TEST_F(ExamplesApiTest, AFileThatWasRemovedIsMadeAnew) {
  HttpClient http(server_->port());
  const auto add = [&](const std::string& key) {
    return http.post("/v1/models/m/examples",
                     json{{"examples", {{{"key", key}, {"text", "a"}, {"label", "good"}}}}});
  };
  EXPECT_EQ(add("lost").status, 200);
  for (const char* suffix : {"", "-wal", "-shm"})
    std::filesystem::remove(model_ / (std::string("examples.db") + suffix));
  EXPECT_EQ(add("kept").status, 200);
  EXPECT_EQ(all(http)["size"], 1);
  server_->kill();
  start();
  HttpClient again(server_->port());
  const auto stored = all(again);
  ASSERT_EQ(stored["size"], 1);
  EXPECT_EQ(stored["examples"][0]["key"], "kept");
}

// What would be lost with the process is not acknowledged; what was is saved when it ends.
TEST_F(ExamplesApiTest, ALogThatWasRemovedIsNotWrittenTo) {
  HttpClient http(server_->port());
  const json body = {{"examples", {{{"key", "a"}, {"text", "a"}, {"label", "good"}}}}};
  EXPECT_EQ(http.post("/v1/models/m/examples", body).status, 200);
  for (const char* suffix : {"-wal", "-shm"})
    std::filesystem::remove(model_ / (std::string("examples.db") + suffix));
  const json more = {{"examples", {{{"key", "b"}, {"text", "b"}, {"label", "good"}}}}};
  const auto refused = http.post("/v1/models/m/examples", more);
  EXPECT_EQ(refused.status, 500);
  EXPECT_TRUE(contains(refused.body, "examples.db-wal: was removed or replaced")) << refused.body;
  server_->program().signal(SIGTERM);
  EXPECT_EQ(server_->program().wait().exit_code, 0);
  start();
  HttpClient again(server_->port());
  EXPECT_EQ(all(again)["size"], 1);
  EXPECT_EQ(again.post("/v1/models/m/examples", more).status, 200);
}

// SQLite's log is beside what a link stands for.
TEST_F(ExamplesApiTest, NorIsThatOfAFileBehindALink) {
  server_->kill();
  std::filesystem::create_symlink("real.db", model_ / "examples.db");
  start();
  HttpClient http(server_->port());
  const json body = {{"examples", {{{"key", "a"}, {"text", "a"}, {"label", "good"}}}}};
  EXPECT_EQ(http.post("/v1/models/m/examples", body).status, 200);
  std::filesystem::remove(model_ / "real.db-wal");
  const json more = {{"examples", {{{"key", "b"}, {"text", "b"}, {"label", "good"}}}}};
  const auto refused = http.post("/v1/models/m/examples", more);
  EXPECT_EQ(refused.status, 500) << refused.body;
  EXPECT_TRUE(contains(refused.body, "real.db-wal: was removed or replaced")) << refused.body;
}

TEST_F(ExamplesApiTest, AnAnswerWithMuchInItIsCutAndGoesOn) {
  HttpClient http(server_->port());
  constexpr int kSamples = 20;
  for (int i = 0; i < kSamples; ++i) {
    const json body = {
        {"examples",
         {{{"key", std::to_string(i)}, {"text", std::string(1 << 20, 'a')}, {"label", "good"}}}}};
    ASSERT_EQ(http.post("/v1/models/m/examples", body).status, 200);
  }
  std::size_t found = 0;
  int answers = 0;
  for (std::int64_t since = 0; found < kSamples; ++answers) {
    const auto part = http.get("/v1/models/m/examples?since=" + std::to_string(since)).json();
    ASSERT_FALSE(part["examples"].empty());
    found += part["examples"].size();
    since = part["examples"].back()["revision"];
  }
  EXPECT_EQ(found, kSamples);
  EXPECT_EQ(answers, 2);
}

TEST_F(ExamplesApiTest, AFileThatIsNoDatabaseHarmsNobodyElse) {
  put_text_model(directory_.path() / "n");
  server_->kill();
  put_text(model_ / "examples.db", std::string(10000, 'x'));
  start();
  HttpClient http(server_->port());
  const json body = {{"examples", {{{"text", "a"}, {"label", "good"}}}}};
  const auto refused = http.post("/v1/models/m/examples", body);
  EXPECT_EQ(refused.status, 500);
  EXPECT_TRUE(contains(refused.body, "examples.db")) << refused.body;
  EXPECT_EQ(http.post("/v1/models/n/examples", body).status, 200);
  const auto metrics = http.get("/metrics");
  EXPECT_EQ(metrics.status, 200);
  EXPECT_TRUE(contains(metrics.body, "sullae_online_store_broken{model=\"m\"} 1")) << metrics.body;
  EXPECT_TRUE(contains(metrics.body, "sullae_online_examples{model=\"n\"} 1")) << metrics.body;
}

TEST_F(ExamplesApiTest, WhatWasAcknowledgedIsThereOnceAfterAKill) {
  std::mutex mutex;
  std::set<std::string> acknowledged;
  std::vector<std::thread> operators;
  for (int o = 0; o < 4; ++o) {
    operators.emplace_back([&, o] {
      try {
        HttpClient http(server_->port());
        for (int i = 0;; ++i) {
          const auto key = std::to_string(o) + "-" + std::to_string(i);
          const json body = {
              {"examples", {{{"key", key}, {"text", "text " + key}, {"label", "good"}}}}};
          if (http.post("/v1/models/m/examples", body).status != 200) return;
          const std::lock_guard lock(mutex);
          acknowledged.insert(key);
        }
      } catch (const std::exception&) {
        return;  // the server is gone, as it should be
      }
    });
  }
  for (std::size_t count = 0; count < 20;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::lock_guard lock(mutex);
    count = acknowledged.size();
  }
  server_->kill();
  for (auto& thread : operators) thread.join();
  start();
  HttpClient http(server_->port());
  std::multiset<std::string> found;
  const json stored = all(http);
  for (const auto& example : stored["examples"]) {
    EXPECT_EQ(example["text"], "text " + example["key"].get<std::string>());
    found.insert(example["key"]);
  }
  for (const auto& key : acknowledged) EXPECT_EQ(found.count(key), 1U) << key;
  EXPECT_EQ(std::set<std::string>(found.begin(), found.end()).size(), found.size());
}

}  // namespace
}  // namespace sullae::testing
