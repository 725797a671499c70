// Texts that a served model goes on with.
#include "serve/generation/generate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <set>
#include <sstream>
#include <thread>

#include "serve/server_program.h"
#include "serve/writer_server.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using nlohmann::json;

class Generate : public WriterServerTest {
 protected:
  // The events of a text that is streamed.
  static std::vector<json> stream(HttpClient& http, const json& body) {
    const auto answer = http.post("/v2/models/writer/generate_stream", body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.headers.at("content-type"), "text/event-stream");
    std::vector<json> events;
    std::istringstream lines(answer.body);
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) events.push_back(json::parse(line.substr(line.find(':') + 1)));
    }
    return events;
  }
  static json ask(HttpClient& http, const json& body, int status = 200) {
    const auto answer = http.post("/v2/models/writer/generate", body);
    EXPECT_EQ(answer.status, status) << answer.body;
    return answer.json();
  }
};

TEST_F(Generate, GoesOnWithATextAsTheProtocolSays) {
  auto http = ready();
  const auto answer = ask(http, {{"id", "7"},
                                 {"text_input", "one two three"},
                                 {"parameters", {{"max_tokens", 3}, {"temperature", 0}}}});
  EXPECT_EQ(answer, json({{"id", "7"},
                          {"model_name", "writer"},
                          {"model_version", "1"},
                          {"text_output", " four five six"},
                          {"finish_reason", "length"},
                          {"tokens", 3}}));
  // Parameters beside the text, as some clients have them; and of a version.
  const auto other =
      http.post("/v2/models/writer/versions/1/generate",
                json{{"text_input", "one two"}, {"max_tokens", 2}, {"temperature", 0.0}});
  EXPECT_EQ(other.json()["text_output"], " three four");
  // What follows is what all models of texts answer with.
  const auto next = http.post("/v1/models/writer:predict", json{{"instances", {"five six", "one"}}})
                        .json()["predictions"];
  EXPECT_EQ(next[0]["next"], "seven");
  EXPECT_EQ(next[1]["next"], "two");
  EXPECT_GT(next[0]["probability"].get<double>(), 0.5);
}

TEST_F(Generate, SendsATextAsItIsWritten) {
  auto http = ready();
  const json asked = {
      {"id", "7"}, {"text_input", "one two"}, {"temperature", 0}, {"max_tokens", 3}};
  const auto said = [](const json& more) {
    json event = {{"id", "7"}, {"model_name", "writer"}, {"model_version", "1"}};
    event.update(more);
    return event;
  };
  EXPECT_EQ(stream(http, asked),
            (std::vector<json>{
                said({{"text_output", " three"}}), said({{"text_output", " four"}}),
                said({{"text_output", " five"}, {"finish_reason", "length"}, {"tokens", 3}})}));
  // The same as a whole, also where bytes make no characters, or several pieces make one.
  for (int seed = 0; seed < 3; ++seed) {
    json random = {
        {"text_input", "\xed\x95\x9c"}, {"temperature", 9}, {"seed", seed}, {"max_tokens", 100}};
    const auto expected = ask(http, random);
    random["stream"] = true;
    const auto events = stream(http, random);
    std::string text;
    for (const auto& event : events) text += event.at("text_output").get<std::string>();
    EXPECT_EQ(text, expected["text_output"]);
    EXPECT_EQ(events.back()["tokens"], expected["tokens"]);
  }
  // Drawn anew where nobody says how.
  std::set<std::string> texts;
  for (int i = 0; i < 3; ++i)
    texts.insert(ask(http, {{"text_input", "one"}, {"temperature", 9}, {"max_tokens", 60}})
                     .at("text_output"));
  EXPECT_GT(texts.size(), 1U);
  // What is wrong before the first piece has a status.
  for (const auto& [body, error] :
       {std::pair{json{{"max_tokens", 3}}, "\"text_input\" is missing"},
        std::pair{json{{"text_input", "x"}, {"stream", false}},
                  "\"stream\": expected true: texts come whole from …/generate, and piece by piece "
                  "from …/generate_stream"}}) {
    const auto refused = http.post("/v2/models/writer/generate_stream", body);
    EXPECT_EQ(refused.status, 400);
    EXPECT_EQ(refused.json(), json({{"error", error}}));
  }
}

TEST_F(Generate, StopsWhereNobodyReads) {
  auto http = ready();
  {
    HttpClient leaving(server_->http_port());
    const std::string body =
        json{{"text_input", "one"}, {"temperature", 0}, {"max_tokens", 8192}}.dump();
    leaving.send("POST /v2/models/writer/generate_stream HTTP/1.1\r\nHost: localhost\r\n" +
                 std::string("Content-Length: ") + std::to_string(body.size()) + "\r\n\r\n" + body);
    wait_until([&] { return of_writer(http, "rows") > 0; });
  }
  wait_until([&] { return of_writer(http, "failure") == 1; });
  EXPECT_LT(of_writer(http, "rows"), 8192);
}

TEST_F(Generate, WithoutRoomForWhatWasSeenTextsAreTheSame) {
  auto http = ready();
  const json asked = {
      {"text_input", "one two"}, {"temperature", 1.5}, {"seed", 3}, {"max_tokens", 40}};
  const auto kept = ask(http, asked);
  const auto bytes = [&] {
    const auto metrics = http.get("/metrics").body;
    const std::string name = "sullae_kv_cache_bytes{model=\"writer\",version=\"1\"} ";
    return std::stoi(metrics.substr(metrics.find(name) + name.size()));
  };
  wait_until([&] { return bytes() == 0; });
  put_text(directory_.path() / "writer" / "config.toml", "kv_cache_megabytes = 0\n");
  http.post("/v1/models/writer:reload", json::object());
  std::filesystem::copy(directory_.path() / "writer" / "1", directory_.path() / "writer" / "2");
  wait_until([&] { return http.get("/v2/models/writer/versions/2/ready").status == 200; });
  auto anew = ask(http, asked);
  EXPECT_EQ(anew["model_version"], "2");
  anew["model_version"] = "1";
  EXPECT_EQ(anew, kept);
}

TEST_F(Generate, TextsOfManyClientsGrowSideBySideAsAlone) {
  auto http = ready();
  const auto body = [](int i) {
    return json{{"text_input", small_prose(i % 4)},
                {"parameters",
                 {{"max_tokens", i % 4 == 3 ? 26 : 5 + 7 * i}, {"temperature", 1.5}, {"seed", i}}}};
  };
  std::vector<json> alone;
  for (int i = 0; i < 8; ++i) alone.push_back(ask(http, body(i)));
  EXPECT_NE(alone[3]["text_output"], alone[7]["text_output"]);
  std::vector<json> together(alone.size());
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&, i] {
      HttpClient own(server_->http_port());
      together[static_cast<std::size_t>(i)] = ask(own, body(i));
    });
  }
  for (auto& one : clients) one.join();
  EXPECT_EQ(together, alone);
  EXPECT_GT(of_writer(http, "rows"), 16);  // one a piece
}

TEST_F(Generate, SaysWhatItCannotDo) {
  auto http = ready();
  const auto error = [&](const json& body) {
    return ask(http, body, 400).at("error").get<std::string>();
  };
  EXPECT_EQ(error(json::array()), "expected an object with \"text_input\"");
  EXPECT_EQ(error({{"max_tokens", 3}}), "\"text_input\" is missing");
  EXPECT_EQ(error({{"text_input", 3}}), "\"text_input\": expected a text");
  EXPECT_EQ(error({{"text_input", "x"}, {"parameters", 3}}), "\"parameters\": expected an object");
  EXPECT_EQ(error({{"text_input", "x"}, {"max_tokens", "3"}}),
            "\"max_tokens\": expected a whole number, got \"3\"");
  EXPECT_EQ(error({{"text_input", "x"}, {"seed", -3}}),
            "\"seed\": expected a whole number, got -3");
  EXPECT_EQ(error({{"text_input", "x"}, {"parameters", {{"top_p", 1.5}}}}),
            "\"top_p\": 1.5: expected above 0, up to 1");
  EXPECT_EQ(error({{"text_input", "x"}, {"max_token", 3}}),
            "there is no parameter \"max_token\"; there are max_tokens, temperature, top_k, top_p "
            "and seed");
  EXPECT_EQ(error({{"text_input", "x"}, {"seed", 1}, {"parameters", {{"seed", 2}}}}),
            "\"seed\" is there twice: in \"parameters\" and beside it");
  EXPECT_EQ(error({{"text_input", "x"}, {"max_tokens", 18446744073709551615ULL}}),
            "\"max_tokens\": expected a whole number, got 18446744073709551615");
  EXPECT_EQ(error({{"text_input", "x"}, {"max_tokens", json(std::vector<int>(1000, 1))}}).size(),
            std::string("\"max_tokens\": expected a whole number, got …").size() + 60);
  EXPECT_EQ(error({{"text_input", "x"}, {"stream", true}}),
            "\"stream\": expected false: texts come whole from …/generate, and piece by piece from "
            "…/generate_stream");
  EXPECT_EQ(error({{"text_input", std::string((1 << 20) + 1, 'x')}}),
            "\"text_input\": has 1048577 bytes, expected at most 1048576");
  const auto other = http.post("/v2/models/m/generate", json{{"text_input", "x"}});
  EXPECT_EQ(other.status, 400);
  EXPECT_TRUE(contains(other.body, "this model writes nothing")) << other.body;
  EXPECT_EQ(http.post("/v2/models/none/generate", json{{"text_input", "x"}}).status, 404);
}

// To learn from: texts, without labels.
TEST_F(Generate, TakesTextsToLearnFrom) {
  auto http = ready();
  const auto put = [&](const char* examples) {
    return http.post("/v1/models/writer/examples", json::parse(examples));
  };
  EXPECT_EQ(
      put(R"({"examples": [{"text": "one two"}, {"text": "three", "key": "k"}]})").json()["added"],
      2);
  const auto kept = http.get("/v1/models/writer/examples").json();
  EXPECT_EQ(kept["examples"][0]["text"], "one two");
  EXPECT_EQ(kept["examples"][0]["label"], "-");
  EXPECT_EQ(put(R"({"examples": [{"key": "k", "label": null}]})").json()["removed"], 1);
  const auto labelled = put(R"({"examples": [{"text": "four", "label": "good"}]})");
  EXPECT_EQ(labelled.status, 400);
  EXPECT_EQ(labelled.json()["error"],
            "example 0: \"label\": the model learns from texts without labels: expected none, or "
            "null, which takes the text back");
}

TEST_F(Generate, NoMoreTextsGoOnThanMay) {
  put_text(directory_.path() / "writer" / "config.toml", "max_queue_size = 1\n");
  auto http = ready();
  const json lengthy = {{"text_input", "one"}, {"temperature", 0}, {"max_tokens", 8192}};
  int status = 0;
  std::thread writer([&] {
    HttpClient own(server_->http_port());
    status = own.post("/v2/models/writer/generate", lengthy).status;
  });
  wait_until([&] { return of_writer(http, "rows") > 0; });
  const auto refused = http.post("/v2/models/writer/generate", json{{"text_input", "x"}});
  EXPECT_EQ(refused.status, 429);
  EXPECT_TRUE(contains(refused.body, "1 texts go on already, which is as many as may"))
      << refused.body;
  EXPECT_EQ(of_writer(http, "failure"), 1);
  // What was let in is written to its end.
  writer.join();
  EXPECT_EQ(status, 200);
  ask(http, {{"text_input", "x"}, {"max_tokens", 1}});
}

TEST_F(Generate, TheServerEndsWhileTextsGoOn) {
  ServerProgram server(made_->path() / "models", {"--drain-timeout", "0.05"});
  wait_until(
      [&] { return HttpClient(server.port()).get("/v2/models/writer/ready").status == 200; });
  HttpClient http(server.port());
  std::vector<std::thread> clients;
  std::atomic<int> begun = 0;
  std::atomic<int> refused = 0;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back([&] {
      HttpClient own(server.port());
      const auto write = [&](int tokens) {
        return own
            .post("/v2/models/writer/generate",
                  json{{"text_input", "one"}, {"temperature", 0}, {"max_tokens", tokens}})
            .status;
      };
      try {
        EXPECT_EQ(write(1), 200);
        ++begun;
        // Texts one after the other, until the server refuses or is gone.
        int status = 200;
        while (status == 200) status = write(8192);
        EXPECT_EQ(status, 503);
        ++refused;
      } catch (const std::runtime_error&) {  // the connection ended
      }
    });
  }
  wait_until([&] { return begun == 6 && of_writer(http, "rows") > 60; });
  server.program().signal(SIGTERM);
  EXPECT_EQ(server.program().wait().exit_code, 0);
  for (auto& one : clients) one.join();
  EXPECT_GT(refused, 0) << "a text that goes on is answered when the server ends";
}

}  // namespace
}  // namespace sullae::testing
