// The loop as operators meet it: the server, and learning beside it.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <set>
#include <thread>

#include "data/images.h"
#include "serve/models.h"
#include "serve/protocol/base64.h"
#include "serve/server_program.h"
#include "support/errors.h"
#include "support/http_client.h"
#include "support/temporary_directory.h"
#include "train/small_digits.h"
#include "train/small_texts.h"

namespace sullae::testing {
namespace {

using nlohmann::json;
using serve::encode_base64;

class OnlineApiTest : public ::testing::Test {
 protected:
  OnlineApiTest() {
    export_small_texts(directory_.path() / "data", repository_);
    put_text(repository_ / "texts" / "config.toml",
             "[online]\nepochs = 4\nbatch_size = 12\nlearning_rate = 0.05\nmin_examples = 20\n"
             "tolerance = 10\n");
  }
  HttpClient start(const std::vector<std::string>& options) {
    server_.emplace(repository_, options);
    return HttpClient(server_->port());
  }
  static json examples(int count) {
    auto list = json::array();
    for (const auto& sample : praised_twists(count))
      list.push_back({{"text", sample.input}, {"label", sample.label}});
    return {{"examples", list}};
  }
  json ask(HttpClient& http, const std::string& text) {
    return http.post("/v1/models/texts:predict", json{{"instances", {text}}})
        .json()["predictions"][0];
  }
  // Until `good` of what the model's online page says; what it says then.
  template <class Good>
  json wait_for(HttpClient& http, Good good, const std::string& model = "texts") {
    json status;
    for (int i = 0; i < 3000; ++i) {
      status = http.get("/v1/models/" + model + "/online").json();
      if (good(status)) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return status;
  }

  TemporaryDirectory directory_;
  std::filesystem::path repository_ = directory_.path() / "models";
  std::optional<ServerProgram> server_;
};

std::set<std::string> sockets_of(pid_t pid) {
  std::set<std::string> sockets;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    const auto target = std::filesystem::read_symlink(entry.path()).string();
    if (target.starts_with("socket:")) sockets.insert(target);
  }
  return sockets;
}

TEST_F(OnlineApiTest, CorrectedSamplesChangeTheAnswers) {
  auto http = start({"--online"});
  const std::string text = "what a twist in film3";
  EXPECT_EQ(ask(http, text)["label"], "0");
  EXPECT_EQ(http.post("/v1/models/texts/examples", examples(20)).status, 200);
  const auto status = wait_for(http, [](const json& s) {
    return !s["rounds"].empty() && s["rounds"][0]["state"] == "published";
  });
  ASSERT_EQ(status["rounds"].size(), 1U) << status;
  EXPECT_EQ(status["running"], true);
  EXPECT_EQ(status["examples"], 20);
  EXPECT_EQ(status["waiting"], 0);
  EXPECT_EQ(status["rounds"][0]["trigger"], "count");
  EXPECT_EQ(status["rounds"][0]["version"], 2);
  EXPECT_EQ(status["rounds"][0]["authors"], json({{"anonymous", 20}}));
  for (int i = 0; i < 3000 && ask(http, text)["label"] != "1"; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(ask(http, text)["label"], "1") << "version 2 answers";
  const auto metrics = http.get("/metrics").body;
  EXPECT_TRUE(contains(metrics, "sullae_online_examples{model=\"texts\"} 20")) << metrics;
  EXPECT_TRUE(contains(metrics, "sullae_online_waiting{model=\"texts\"} 0")) << metrics;
  EXPECT_TRUE(contains(metrics, "sullae_online_rounds{model=\"texts\",state=\"published\"} 1"))
      << metrics;
  EXPECT_EQ(http.get("/v1/models/texts/online?limit=0").json()["rounds"], json::array());

  // By call, although only one has changed.
  http.post("/v1/models/texts/examples",
            json::parse(R"({"examples": [{"text": "twist and dull", "label": "0"}]})"));
  EXPECT_EQ(http.get("/v1/models/texts/online").json()["waiting"], 1);
  EXPECT_EQ(http.post("/v1/models/texts:train", std::string()).json(),
            json({{"call", 1}, {"running", true}}));
  const auto called = wait_for(http, [](const json& s) {
    return s["rounds"].size() == 2 && s["rounds"][0]["state"] != "training" &&
           s["rounds"][0]["state"] != "publishing";
  });
  EXPECT_EQ(called["rounds"][0]["trigger"], "call") << called;
  EXPECT_EQ(called["called"], false);
}

TEST_F(OnlineApiTest, CorrectedImagesChangeTheAnswersToo) {
  export_small_digits(directory_.path() / "digits", repository_);
  put_text(repository_ / "digits" / "config.toml",
           "[online]\nepochs = 8\nbatch_size = 12\nmin_examples = 12\ntolerance = 20\n");
  auto http = start({"--online"});
  const auto image = [](int grey) {
    return json{{"b64", encode_base64(one_colour_jpeg(28, 28, grey, grey, grey))}};
  };
  const auto label = [&] {
    return http.post("/v1/models/digits:predict", json{{"instances", {image(250)}}})
        .json()["predictions"][0]["label"];
  };
  const json wanted = label() == "7" ? "8" : "7";
  auto list = json::array();
  for (int i = 0; i < 12; ++i)
    list.push_back({{"image", image(240 + i)}, {"label", wanted}, {"key", std::to_string(i)}});
  const std::string examples = "/v1/models/digits/examples";
  const auto posted = http.post(examples, json{{"examples", list}});
  EXPECT_EQ(posted.status, 200) << posted.body;
  const auto kept = http.get(examples + "?limit=1").json()["examples"][0];
  EXPECT_EQ(kept["image"], list[0]["image"]);
  EXPECT_EQ(kept["key"], "0");
  const auto status = wait_for(
      http,
      [](const json& s) { return !s["rounds"].empty() && s["rounds"][0]["state"] == "published"; },
      "digits");
  ASSERT_EQ(status["rounds"].size(), 1U) << status;
  EXPECT_EQ(status["rounds"][0]["result"]["changed"]["samples"], 12);
  for (int i = 0; i < 3000 && label() != wanted; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(label(), wanted);

  const std::pair<json, const char*> wrong[] = {
      {{{"image", {{"b64", encode_base64("no image")}}}, {"label", "7"}},
       "example 0: input 'image', image 0: is no JPEG file"},
      {{{"image", {{"b64", "*"}}}, {"label", "7"}}, "example 0: tensor 'image'"},
      {{{"image", "a.jpg"}, {"label", "7"}}, "example 0: \"image\": expected {\"b64\": …}"},
      {{{"text", "seven"}, {"label", "7"}}, "example 0: 'text': expected image, label and key"},
      {{{"image", image(1)}, {"label", "x"}}, "example 0: the model has no label 'x'"}};
  for (const auto& [example, message] : wrong) {
    const auto answer = http.post(examples, json{{"examples", {example}}});
    EXPECT_EQ(answer.status, 400) << example;
    EXPECT_TRUE(contains(answer.json()["error"], message)) << answer.body;
  }
}

TEST_F(OnlineApiTest, LearningEndsWithTheServerAndComesBackWithoutIt) {
  auto http = start({"--online"});
  http.post("/v1/models/texts/examples", examples(1));
  const auto find = [&] {
    std::vector<pid_t> found;
    for (const pid_t pid : processes_with(repository_.string())) {
      if (pid != server_->program().pid()) found.push_back(pid);
    }
    return found;
  };
  wait_for(http, [](const json& s) { return s["running"] == true; });
  auto learners = find();
  ASSERT_EQ(learners.size(), 1U);
  ::kill(learners[0], SIGKILL);
  wait_for(http, [](const json& s) { return s["running"] == false; });
  EXPECT_EQ(wait_for(http, [](const json& s) { return s["running"] == true; })["running"], true)
      << "it is started again";
  learners = find();
  ASSERT_EQ(learners.size(), 1U);
  const auto of_server = sockets_of(server_->program().pid());
  EXPECT_FALSE(of_server.empty());
  for (const auto& socket : sockets_of(learners[0]))
    EXPECT_FALSE(of_server.contains(socket)) << "a connection would outlive the server";
  server_->kill();
  EXPECT_TRUE(vanish(repository_.string())) << "nothing is left behind";
}

TEST_F(OnlineApiTest, SaysWhatIsWrong) {
  put_text(directory_.path() / "tokens.toml",
           "[[token]]\nname = \"dashboard\"\nrole = \"read\"\ntoken = \"0123456789abcdef\"\n");
  auto http = start({"--tokens-file", directory_.path() / "tokens.toml"});
  const std::map<std::string, std::string> token = {{"Authorization", "Bearer 0123456789abcdef"}};
  EXPECT_EQ(http.get("/v1/models/texts/online").status, 401);
  const auto status = http.ask("GET", "/v1/models/texts/online", "", token);
  EXPECT_EQ(status.json(), json::parse(R"({"running": false, "examples": 0, "waiting": 0,
                                           "called": false, "rounds": []})"));
  EXPECT_EQ(http.post("/v1/models/texts:train", std::string(), token).status, 403);
  EXPECT_EQ(http.ask("GET", "/v1/models/none/online", "", token).status, 404);
  EXPECT_EQ(http.ask("GET", "/v1/models/texts/online?limit=x", "", token).status, 400);
  EXPECT_EQ(http.ask("POST", "/v1/models/texts/online", "", token).status, 405);
  put_text(std::filesystem::path(repository_) / "texts" / "config.toml",
           "[online]\nenabled = false\n");
  put_text_model(std::filesystem::path(repository_) / "script");
  auto served = start({});
  EXPECT_EQ(served.post("/v1/models/texts:train", std::string()).status, 409);
  const auto script = served.post("/v1/models/script:train", std::string());
  EXPECT_EQ(script.status, 409);
  EXPECT_TRUE(contains(script.body, "TorchScript modules are not trained further")) << script.body;
  const auto ranks =
      run_program({sullae_program(), "serve", repository_, "--online", "--online-ranks", "none"});
  EXPECT_EQ(ranks.exit_code, 2);
  EXPECT_TRUE(contains(ranks.standard_error + ranks.standard_output, "--online-ranks"));
  EXPECT_TRUE(contains(run_program({sullae_program(), "online", "/nonexistent"}).standard_error,
                       "sullae online: /nonexistent: is no folder"));
}

}  // namespace
}  // namespace sullae::testing
