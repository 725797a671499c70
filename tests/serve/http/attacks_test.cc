// What a server must not spend on requests that it refuses, and to whom it must not listen.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "data/images.h"
#include "online/database.h"
#include "serve/constant_server.h"
#include "serve/protocol/base64.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using nlohmann::json;

std::size_t resident_bytes() {
  std::ifstream status("/proc/self/statm");
  std::size_t pages = 0;
  status >> pages >> pages;
  return pages * 4096;
}

class Attacks : public ConstantServerTest {
 protected:
  void protect() {
    const auto file = directory_.path() / ".tokens.toml";
    put_text(file, "[[token]]\nname = \"a\"\nrole = \"operate\"\ntoken = \"aaaaaaaaaaaaaaaa\"\n");
    options_.tokens_file = file;
  }
};

TEST_F(Attacks, TokensPathsAndMethodsAreCheckedBeforeTheBodyComes) {
  protect();
  client();
  const std::tuple<const char*, const char*, int> cases[] = {
      {"POST /v1/models/m:predict", "", 401},
      {"POST /v1/models/m:predict", "Authorization: Bearer wrongwrongwrongw\r\n", 401},
      {"POST /nowhere", "Authorization: Bearer aaaaaaaaaaaaaaaa\r\n", 404},
      {"POST /v1/models/n:predict", "Authorization: bearer aaaaaaaaaaaaaaaa\r\n", 404},
      {"PUT /v1/models/m:predict", "Authorization: Bearer aaaaaaaaaaaaaaaa\r\n", 405}};
  for (const auto& [line, header, status] : cases) {
    SCOPED_TRACE(line);
    auto http = client();
    // Not a byte of the body is sent.
    http.send(std::string(line) + " HTTP/1.1\r\nHost: localhost\r\n" + header +
              "Content-Length: 60000000\r\n\r\n");
    EXPECT_EQ(http.read_answer().status, status);
    EXPECT_TRUE(http.is_closed());
  }
}

TEST_F(Attacks, ExtensionsOfChunksAndTrailersAreLimited) {
  client();
  const auto before = resident_bytes();
  for (const std::string& start :
       {std::string("1;x="), std::string("1\r\n \r\n0\r\nX: "), std::string("1")}) {
    auto http = client();
    http.send(
        "POST /v1/models/m:predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
        "chunked\r\n\r\n" +
        start);
    const std::string more(1 << 20, start == "1" ? '0' : 'a');
    try {
      for (int i = 0; i < 60; ++i) http.send(more);
    } catch (const std::exception&) {
      // The server has closed the connection, as it should.
    }
  }
  EXPECT_LT(resident_bytes(), before + (40U << 20));
  EXPECT_EQ(client().get("/v2/health/live").status, 200);
}

TEST_F(Attacks, BodiesOfAllClientsShareOneBudget) {
  options_.max_inflight_bytes = 8 << 20;
  options_.max_body_bytes = 6 << 20;
  client();
  const std::string head =
      "POST /v1/models/m:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6000000\r\n\r\n";
  // The first is still being sent when the second takes what is left; or the second was read before
  // it, and has taken what the first would need.
  bool is_first_answered = false;
  for (int round = 0; !is_first_answered && round < 20; ++round) {
    auto first = client();
    first.send(head + std::string(5 << 20, ' '));
    int status = 0;
    for (int tries = 0; status != 503 && tries < 50; ++tries) {
      auto second = client();
      try {
        second.send(head + std::string(6000000 - 1, ' '));
      } catch (const std::exception&) {
        // Refused while it was sending.
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      try {
        second.send(" ");
        const auto answer = second.read_answer();
        status = answer.status;
        EXPECT_TRUE(status != 503 || contains(answer.body, "--max-inflight-megabytes"));
      } catch (const std::exception&) {
        status = 503;  // told and closed before this client looked
      }
    }
    try {
      first.send(std::string(6000000 - (5 << 20), ' '));
      is_first_answered = status == 503 && first.read_answer().status != 503;
    } catch (const std::exception&) {
      // Refused, and closed.
    }
  }
  EXPECT_TRUE(is_first_answered);
  EXPECT_EQ(client().post("/v1/models/m:predict", json{{"instances", {{1, 2}}}}).status, 200);
}

TEST_F(Attacks, JsonThatWouldGrowBeyondTheBudgetIsRefusedBeforeItIsParsed) {
  options_.max_inflight_bytes = 64 << 20;
  auto http = client();
  const auto before = resident_bytes();
  std::string lists = R"({"instances":[[])";
  for (int i = 0; i < 1000000; ++i) lists += ",[]";
  const auto answer = http.post("/v1/models/m:predict", lists + "]}");
  EXPECT_EQ(answer.status, 413) << answer.body;
  EXPECT_TRUE(contains(answer.body, "more than all requests may"));
  EXPECT_LT(resident_bytes(), before + (64U << 20));
}

TEST_F(Attacks, RowsAreCountedBeforeTheyAreDecoded) {
  auto http = client();
  std::string rows = R"({"instances":[[1,2])";
  for (int i = 0; i < 100000; ++i) rows += ",[1,2]";
  const auto answer = http.post("/v1/models/m:predict", rows + "]}");
  EXPECT_EQ(answer.status, 400);
  EXPECT_TRUE(contains(answer.body, "100001 rows, expected at most 4 in a request")) << answer.body;
}

// Whatever the shape says, and over gRPC's form of it too.
TEST_F(Attacks, TextsAreRowsWhateverTheirShapeSays) {
  put_text_model(model_, 2);
  std::ofstream(model_ / "config.toml", std::ios::app) << "max_batch_size = 4\n";
  auto http = client();
  const auto answer = http.post("/v2/models/m/infer", json::parse(R"({"inputs": [{"name": "text",
      "shape": [1, 5], "datatype": "BYTES", "data": ["a", "b", "a", "b", "a"]}]})"));
  EXPECT_EQ(answer.status, 400);
  EXPECT_TRUE(contains(answer.body, "5 rows, expected at most 4 in a request")) << answer.body;
}

TEST_F(Attacks, AnOutputWithoutRowsIsNoPrediction) {
  put_script(model_, 2,
             "def forward(self, x):\n"
             "    return x, torch.sum(x)\n");
  put_text(model_ / "config.toml", "");
  auto http = client();
  const auto answer = http.post("/v1/models/m:predict", json{{"instances", {{1.5, 2.5}}}});
  EXPECT_EQ(answer.status, 400) << answer.body;
  EXPECT_TRUE(contains(answer.body, "has not one entry a row: ask with")) << answer.body;
}

TEST_F(Attacks, WhatTakesNoBodyTakesNone) {
  auto http = client();
  http.send("GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000000\r\n\r\n");
  EXPECT_EQ(http.read_answer().status, 400);
  EXPECT_TRUE(http.is_closed());
}

TEST_F(Attacks, HeadersAreCounted) {
  auto http = client();
  std::string fields;
  for (int i = 0; i < 10000; ++i) fields += "ab:\r\n";
  http.send("GET /v2 HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n");
  EXPECT_EQ(http.read_answer().status, 431);
}

TEST_F(Attacks, PagesOfOtherSitesAreNotListenedTo) {
  options_.allowed_hosts = {"serving.example"};
  auto http = client();
  const auto status = [&](const std::string& method,
                          const std::map<std::string, std::string>& headers) {
    return http.ask(method, method == "GET" ? "/v1/models" : "/v1/models/m:rollback", "", headers)
        .status;
  };
  for (const char* host : {"localhost", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000",
                           "10.0.0.7", "serving.example"})
    EXPECT_EQ(status("GET", {{"Host", host}}), 200) << host;
  for (const char* host : {"evil.example", "localhost.evil.example", "evil.example:8000"})
    EXPECT_EQ(status("GET", {{"Host", host}}), 403) << host;
  EXPECT_EQ(status("POST", {{"Origin", "http://evil.example"}}), 403);
  EXPECT_EQ(status("POST", {{"Origin", "null"}}), 403);
  EXPECT_EQ(status("POST", {{"Origin", "http://localhost:1234"}}), 403);
  EXPECT_EQ(status("POST", {{"Content-Type", "text/plain"}}), 415);
  EXPECT_EQ(status("POST", {{"Content-Type", "application/x-www-form-urlencoded"}}), 415);
  EXPECT_EQ(status("POST", {{"Content-Type", ""}, {"Origin", "http://localhost"}}), 415);
  EXPECT_EQ(status("POST", {{"Content-Type", ""}, {"Origin", "http://evil.example"}}), 403);
  EXPECT_EQ(status("POST", {{"Content-Type", ""}}), 409);            // no page's
  EXPECT_EQ(status("POST", {{"Origin", "http://localhost"}}), 409);  // there is none before
  EXPECT_EQ(status("POST", {{"Content-Type", "application/json; charset=utf-8"}}), 409);
}

TEST_F(Attacks, WithTokensNamesDoNotMatter) {
  protect();
  auto http = client();
  EXPECT_EQ(http.ask("GET", "/v1/models", "",
                     {{"Host", "any.example"}, {"Authorization", "Bearer aaaaaaaaaaaaaaaa"}})
                .status,
            200);
}

// The idle timeout is for connections without a request; a header that has begun has less time.
TEST_F(Attacks, TheNextHeaderHasTheReadTimeout) {
  options_.read_timeout = std::chrono::milliseconds(200);
  options_.idle_timeout = std::chrono::seconds(60);
  auto http = client();
  EXPECT_EQ(http.get("/v2").status, 200);
  http.send("GET /v2 HTTP/1.1\r\nHos");
  EXPECT_EQ(http.read_answer().status, 408);
}

TEST_F(Attacks, HeadAndWrongMethodsAreAnswered) {
  auto http = client();
  const auto head = http.ask("HEAD", "/v2/health/live", "");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.body, "");
  EXPECT_EQ(http.get("/v2/health/live").json(), json({{"live", true}}));
  const auto deleted = http.ask("DELETE", "/v2/health/live", "");
  EXPECT_EQ(deleted.status, 405);
  EXPECT_EQ(deleted.headers.at("allow"), "GET");
  EXPECT_EQ(http.ask("OPTIONS", "/v1/models/m:predict", "").status, 405);
}

TEST_F(Attacks, ALockedDatabaseStopsNobodyElse) {
  put_text(model_ / "config.toml", std::string("max_batch_size = 4\n") + kConstantConfig);
  auto http = client();
  online::Database other(model_ / "examples.db");
  other.execute("PRAGMA user_version = 0");
  const online::Transaction held(other);
  // More of them than there are threads for the disk.
  std::vector<std::unique_ptr<HttpClient>> waiting;
  for (int i = 0; i < 6; ++i) {
    waiting.push_back(std::make_unique<HttpClient>(server_->http_port()));
    waiting.back()->send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(client().get("/v2/health/live").status, 200);
    EXPECT_EQ(client().post("/v1/models/m:predict", json{{"instances", {{1, 2}}}}).status, 200);
  }
}

TEST_F(Attacks, ElementsOfBytesAreCountedBeforeTheyAreMade) {
  put_text_model(model_, 2);
  auto http = client();
  wait_until([&] { return http.get("/v1/models/m").json()["model_version_status"].size() == 2; });
  constexpr std::size_t kElements = 5'000'000;
  const std::string head = R"({"inputs": [{"name": "text", "shape": [5000000], "datatype": "BYTES",
      "parameters": {"binary_data_size": 20000000}}]})";
  const auto before = resident_bytes();
  const auto answer = http.post("/v2/models/m/infer", head + std::string(4 * kElements, '\0'),
                                {{"Inference-Header-Content-Length", std::to_string(head.size())}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_TRUE(contains(answer.body, "5000000 rows, expected at most")) << answer.body;
  EXPECT_LT(resident_bytes(), before + (100U << 20));
}

TEST_F(Attacks, LongTextsAreRefused) {
  put_text_model(model_, 2);
  auto http = client();
  wait_until([&] { return http.get("/v1/models/m").json()["model_version_status"].size() == 2; });
  const std::string text((1 << 20) + 1, 'a');
  auto answer = http.post("/v1/models/m:predict", json{{"instances", {"a", text}}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_TRUE(contains(answer.body, "text 1: has 1048577 bytes, expected at most 1048576"))
      << answer.body;
  answer =
      http.post("/v1/models/m/examples", json{{"examples", {{{"text", text}, {"label", "good"}}}}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_TRUE(contains(answer.body, "\\\"text\\\" has 1048577 bytes, expected at most 1048576"))
      << answer.body;
}

// Others read while :train and uploads wait for whoever holds the lock.
TEST_F(Attacks, WhatWaitsForALockOnTheSamplesStopsNoReader) {
  put_text_model(model_, 2);
  auto http = client();
  wait_until([&] { return http.get("/v1/models/m").json()["model_version_status"].size() == 2; });
  http.post("/v1/models/m/examples", json{{"examples", {{{"text", "a"}, {"label", "good"}}}}});
  put_text(model_ / "9" / "model.ckpt", "what learns, or would");
  online::Database other(model_ / "examples.db");
  std::vector<std::unique_ptr<HttpClient>> waiting;
  {
    const online::Transaction held(other);
    for (int i = 0; i < 8; ++i) {
      waiting.push_back(std::make_unique<HttpClient>(server_->http_port()));
      waiting.back()->send(
          "POST /v1/models/m:train HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
          "application/json\r\nContent-Length: 0\r\n\r\n");
    }
    for (const char* path : {"/metrics", "/v1/models", "/v2/models/m", "/v1/models/m/examples"})
      EXPECT_EQ(client().get(path).status, 200) << path;
  }
  for (auto& one : waiting) EXPECT_EQ(one->read_answer().status, 200);
}

// A picture of some hundred bytes can take long.
TEST_F(Attacks, ImagesHaveTheRequestsTimeAndStopNobodyElse) {
  const auto images = directory_.path() / "images";
  put_text(images / "config.toml",
           "timeout_milliseconds = 300\nmax_batch_size = 64\npreprocessing = \"image\"\n");
  put_script(images, 1, "def forward(self, x):\n    return torch.mean(x, [2, 3])\n");
  auto http = client();
  wait_until([&] { return http.get("/v2/models/images/ready").status == 200; });
  const auto jpeg =
      make_jpeg({.width = 4000, .height = 4000}, [](unsigned, unsigned, int) { return 77; });
  json body = {{"instances", json::array()}};
  for (int i = 0; i < 64; ++i) body["instances"].push_back({{"b64", serve::encode_base64(jpeg)}});
  std::vector<std::unique_ptr<HttpClient>> slow;
  for (int i = 0; i < 4; ++i) {
    slow.push_back(std::make_unique<HttpClient>(server_->http_port()));
    const auto text = body.dump();
    slow.back()->send(
        "POST /v1/models/images:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
        std::to_string(text.size()) + "\r\n\r\n" + text);
  }
  EXPECT_EQ(http.post("/v1/models/m:predict", json{{"instances", {{1, 2}}}}).status, 200);
  for (auto& one : slow) {
    const auto answer = one->read_answer();
    EXPECT_EQ(answer.status, 504) << answer.body;
    EXPECT_TRUE(contains(answer.body, "timeout_milliseconds")) << answer.body;
  }
}

}  // namespace
}  // namespace sullae::testing
