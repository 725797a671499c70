// The server as clients meet it, over HTTP and gRPC.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "serve/constant_server.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using nlohmann::json;

using ServerTest = ConstantServerTest;

constexpr const char* kInfer =
    R"({"id": "a", "inputs": [{"name": "x", "shape": [2, 2], "datatype": "FP32", "data": [1, 2, 3, 4]}]})";

TEST_F(ServerTest, SpeaksTheOpenInferenceProtocol) {
  auto http = client();
  EXPECT_EQ(http.get("/v2/health/live").json(), json({{"live", true}}));
  EXPECT_EQ(http.get("/v2/health/ready").json(), json({{"ready", true}}));
  const auto server = http.get("/v2").json();
  EXPECT_EQ(server["name"], "sullae");
  EXPECT_EQ(server["extensions"], json({"model_repository", "model_configuration", "statistics",
                                        "binary_tensor_data", "generate"}));
  EXPECT_EQ(http.get("/v2/models/m/ready").status, 200);
  EXPECT_EQ(http.get("/v2/models/m/versions/1/ready").status, 200);
  EXPECT_EQ(http.get("/v2/models/m").json(), json::parse(R"({
      "name": "m", "versions": ["1"], "platform": "pytorch_torchscript",
      "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}],
      "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 1]}]})"));
  for (const char* path : {"/v2/models/m/infer", "/v2/models/m/versions/1/infer"}) {
    const auto answer = http.post(path, std::string(kInfer));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.at("content-type"), "application/json");
    EXPECT_EQ(answer.json(), json::parse(R"({
        "model_name": "m", "model_version": "1", "id": "a",
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [2, 1], "data": [7.0, 7.0]}]})"));
  }
  EXPECT_EQ(http.post("/v2/repository/index", std::string()).json(),
            json::parse(R"([{"name": "m", "version": "1", "state": "READY", "reason": ""}])"));
}

// What Triton's clients and its perf_analyzer ask for.
TEST_F(ServerTest, SpeaksTritonsExtensions) {
  put_text(directory_.path() / "bad" / "1" / "model.pt", "no module");
  auto http = client();
  ASSERT_EQ(http.post("/v2/models/m/infer", std::string(kInfer)).status, 200);
  EXPECT_EQ(http.get("/v2/models/m/config").json(), json::parse(R"({
      "name": "m", "platform": "pytorch_torchscript", "backend": "sullae", "max_batch_size": 4,
      "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [2]}],
      "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [1]}]})"));
  for (const char* path :
       {"/v2/models/m/stats", "/v2/models/m/versions/1/stats", "/v2/models/stats"}) {
    const auto stats = http.get(path).json()["model_stats"];
    ASSERT_EQ(stats.size(), 1U) << path;
    EXPECT_EQ(stats[0]["version"], "1");
    EXPECT_EQ(stats[0]["inference_count"], 2);
    EXPECT_EQ(stats[0]["inference_stats"]["success"]["count"], 1);
    EXPECT_GT(stats[0]["inference_stats"]["compute_infer"]["ns"], 0);
  }
  EXPECT_EQ(http.get("/v2/models/m/versions/7/stats").status, 404);
  EXPECT_EQ(http.post("/v2/repository/index", json{{"ready", true}}.dump()).json().size(), 1U);
  EXPECT_EQ(http.post("/v2/repository/index", json{{"ready", false}}.dump()).json().size(), 2U);
  EXPECT_EQ(http.post("/v2/repository/index", json{{"ready", 1}}.dump()).status, 400);
  // Without a Content-Type, as they send it.
  const std::string load = "/v2/repository/models/m/load";
  EXPECT_EQ(http.ask("POST", load, "{}", {{"Content-Type", ""}}).status, 200);
  // What was put there a moment ago, and whatever comes of it.
  const auto added = directory_.path() / "new";
  std::filesystem::copy(model_, added, std::filesystem::copy_options::recursive);
  EXPECT_EQ(http.ask("POST", "/v2/repository/models/new/load", "{}").status, 200);
  EXPECT_EQ(http.post("/v2/models/new/infer", std::string(kInfer)).status, 200);
  std::filesystem::create_directories(added / "9");
  std::ofstream(added / "9" / "model.pt") << "garbage";
  const auto refused = http.ask("POST", "/v2/repository/models/new/load", "{}");
  EXPECT_EQ(refused.status, 409);
  EXPECT_TRUE(contains(refused.body, "model 'new': version 9 is refused: ")) << refused.body;
  EXPECT_EQ(http.post("/v2/models/new/infer", std::string(kInfer)).status, 200);
  EXPECT_EQ(http.ask("POST", "/v2/repository/models/none/load", "{}").status, 404);
  const auto configured = http.post(load, json{{"parameters", {{"config", "{}"}}}}.dump());
  EXPECT_EQ(configured.status, 400);
  EXPECT_TRUE(contains(configured.body, "config.toml says how it is served"));
  const auto unloaded = http.post("/v2/repository/models/m/unload", std::string("{}"));
  EXPECT_EQ(unloaded.status, 400);
  EXPECT_TRUE(contains(unloaded.body, "take the model's folder out of the repository"));
}

TEST_F(ServerTest, SpeaksBinaryTensors) {
  const std::string request =
      R"({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32",
          "parameters": {"binary_data_size": 8}}], "parameters": {"binary_data_output": true}})";
  const auto answer =
      client().post("/v2/models/m/infer", request + std::string(8, '\0'),
                    {{"Inference-Header-Content-Length", std::to_string(request.size())}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.headers.at("content-type"), "application/octet-stream");
  const auto json_size = std::stoul(answer.headers.at("inference-header-content-length"));
  EXPECT_EQ(json::parse(answer.body.substr(0, json_size))["outputs"][0]["parameters"],
            json({{"binary_data_size", 4}}));
  float value = 0;
  ASSERT_EQ(answer.body.size() - json_size, sizeof value);
  std::memcpy(&value, answer.body.data() + json_size, sizeof value);
  EXPECT_EQ(value, 7);
}

TEST_F(ServerTest, SpeaksTensorFlowServings) {
  auto http = client();
  EXPECT_EQ(http.post("/v1/models/m:predict", json{{"instances", {{1, 2}, {3, 4}}}}).json(),
            json::parse(R"({"predictions": [[7.0], [7.0]]})"));
  EXPECT_EQ(http.post("/v1/models/m/versions/1:predict", json{{"inputs", {{1, 2}}}}).json(),
            json::parse(R"({"outputs": [[7.0]]})"));
  EXPECT_EQ(http.get("/v1/models/m").json(), json::parse(R"({"model_version_status": [
      {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}]})"));
  EXPECT_EQ(http.get("/v1/models/m/versions/1").json()["model_version_status"].size(), 1U);
  // Also of a version that does not answer: clients wait for the state, or for the reason.
  put_text(model_ / "2" / "model.pt", "no module");
  json refused;
  wait_until([&] {
    const auto answer = http.get("/v1/models/m/versions/2");
    if (answer.status == 200) refused = answer.json()["model_version_status"][0];
    return refused.contains("status") && refused["status"]["error_message"] != "";
  });
  EXPECT_EQ(refused["state"], "END");
  EXPECT_EQ(http.get("/v1/models/m/versions/3").status, 404);
}

TEST_F(ServerTest, SaysWhatIsWrong) {
  auto http = client();
  const std::tuple<const char*, const char*, std::string, int, const char*> cases[] = {
      {"POST", "/v2/models/m/infer", "{", 400, "the body is no JSON"},
      {"POST", "/v2/models/m/infer", R"({"inputs": []})", 400, "input 'x' is missing"},
      {"POST", "/v2/models/m/infer",
       R"({"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]})",
       400, "input 'x': shape [1, 3], expected [-1, 2]"},
      {"POST", "/v2/models/m/infer",
       R"({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}],
           "outputs": [{"name": "z"}]})",
       400, "there is no output 'z'"},
      {"POST", "/v2/models/m/infer",
       R"({"inputs": [{"name": "x", "shape": [0, 2], "datatype": "FP32", "data": []}]})", 400,
       "the request has no rows"},
      {"POST", "/v1/models/m:predict", R"({"instances": [[1,2],[1,2],[1,2],[1,2],[1,2]]})", 400,
       "5 rows, expected at most 4 in a request"},
      {"GET", "/v2/models/m/infer", "", 405, "expected POST"},
      {"POST", "/metrics", "", 405, "expected GET"},
      {"POST", "/v1/models/m:canary", R"({"version": 1, "percent": 4294967346})", 400, "0 to 100"},
      {"POST", "/v2/models/n/infer", kInfer, 404, "there is no model 'n'"},
      {"POST", "/v2/models/m/versions/9/infer", kInfer, 404, "model 'm' serves no version 9"},
      {"POST", "/v1/models/m:explain", "{}", 404, "there is no call ':explain'"},
      {"GET", "/v3", "", 404, "there is nothing at /v3"},
      {"GET", "/../../etc/passwd", "", 404, "there is nothing at"},
      {"GET", "/v2/models/..%2f..%2fetc", "", 404, "there is no model"},
      {"POST", "/v1/models/m:canary", "{}", 400,
       "expected {\"version\": N, \"percent\": 0 to 100}"},
      {"POST", "/v1/models/m:rollback", "{}", 409, "there is no version before 1"}};
  for (const auto& [method, path, body, status, message] : cases) {
    const auto answer = http.ask(method, path, body);
    EXPECT_EQ(answer.status, status) << path << answer.body;
    EXPECT_TRUE(contains(answer.json().at("error"), message)) << path << answer.body;
  }
  const auto compressed =
      http.ask("POST", "/v2/models/m/infer", "\x1f\x8b", {{"Content-Encoding", "gzip"}});
  EXPECT_EQ(compressed.status, 415);
  EXPECT_EQ(compressed.json().at("error"),
            "Content-Encoding 'gzip': expected a body as it is, without one");
  EXPECT_EQ(http.post("/v2/models/m/infer", std::string(kInfer)).status, 200);
}

TEST_F(ServerTest, StandsClientsThatMisbehave) {
  options_.max_body_bytes = 1000;
  options_.read_timeout = std::chrono::milliseconds(300);
  options_.idle_timeout = std::chrono::milliseconds(300);
  client();
  {
    auto http = client();
    const auto answer = http.post("/v2/models/m/infer", std::string(2000, ' '));
    EXPECT_EQ(answer.status, 413);
    EXPECT_TRUE(contains(answer.json().at("error"), "the body has more than 1000 bytes"));
  }
  {
    auto http = client();  // announces 100 MB, and is told at once
    http.send(
        "POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
        "104857600\r\n\r\n{");
    EXPECT_EQ(http.read_answer().status, 413);
  }
  {
    auto http = client();
    http.send("HELLO\r\n\r\n");
    EXPECT_EQ(http.read_answer().status, 400);
  }
  {
    auto http = client();
    http.send("GET / HTTP/1.1\r\nHost: localhost\r\nA: " + std::string(100000, 'a') + "\r\n\r\n");
    EXPECT_EQ(http.read_answer().status, 431);
  }
  {
    auto http = client();  // a header that never ends
    http.send("GET / HTTP/1.1\r\nHost: localhost\r\nA: ");
    EXPECT_EQ(http.read_answer().status, 408);
  }
  {
    auto http = client();  // says nothing
    EXPECT_TRUE(http.is_closed());
  }
  {
    auto http = client();  // asks before it sends
    http.send(
        "POST /v1/models/m:predict HTTP/1.1\r\nHost: localhost\r\nExpect: "
        "100-continue\r\nContent-Length: 22\r\n\r\n");
    EXPECT_EQ(http.read_answer().status, 100);
    http.send(R"({"instances": [[1,2]]})");
    EXPECT_EQ(http.read_answer().status, 200);
  }
  {
    auto http = client();  // ends its half, and still gets its answer
    http.send("GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    http.finish_sending();
    EXPECT_EQ(http.read_answer().status, 200);
    EXPECT_TRUE(http.is_closed());
  }
  {
    auto http = client();  // two requests at once
    http.send(
        "GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\nGET /v2/health/live HTTP/1.1\r\nHost: "
        "localhost\r\n\r\n");
    EXPECT_EQ(http.read_answer().json()["name"], "sullae");
    EXPECT_EQ(http.read_answer().json()["live"], true);
  }
  {
    client().send(
        "POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{");
  }
  EXPECT_EQ(client().post("/v2/models/m/infer", std::string(kInfer)).status, 200);
}

TEST_F(ServerTest, TokensHaveRoles) {
  put_text(directory_.path() / ".tokens.toml", R"(
[[token]]
name = "dashboard"
role = "read"
token = "rrrrrrrrrrrrrrrr"
[[token]]
name = "shop"
role = "infer"
token = "iiiiiiiiiiiiiiii"
[[token]]
name = "kim"
role = "operate"
token = "oooooooooooooooo"
)");
  options_.tokens_file = directory_.path() / ".tokens.toml";
  auto http = client();
  const auto status = [&](const char* method, const char* path, const std::string& token,
                          const char* body = R"({"instances": [[1, 2]]})") {
    std::map<std::string, std::string> headers;
    if (!token.empty()) headers["Authorization"] = "Bearer " + token;
    return http.ask(method, path, body, headers).status;
  };
  const std::string read(16, 'r');
  const std::string infer(16, 'i');
  const std::string operate(16, 'o');
  EXPECT_EQ(status("GET", "/v2/health/live", ""), 200);
  EXPECT_EQ(status("GET", "/", ""), 200);
  EXPECT_EQ(status("GET", "/metrics", ""), 401);
  EXPECT_EQ(status("GET", "/metrics", "wrong"), 401);
  EXPECT_EQ(status("GET", "/metrics", std::string(16, 'x')), 401);
  EXPECT_EQ(status("GET", "/metrics", read), 200);
  EXPECT_EQ(status("POST", "/v1/models/m:predict", read), 403);
  EXPECT_EQ(status("POST", "/v1/models/m:predict", infer), 200);
  EXPECT_EQ(status("POST", "/v1/models/m:rollback", infer), 403);
  EXPECT_EQ(status("POST", "/v1/models/m:rollback", operate, ""), 409);
  EXPECT_EQ(status("POST", "/v1/models/m:rollback", operate, "{}"), 409);
  EXPECT_EQ(status("POST", "/v1/models/m:rollback", operate, R"({"version": 1})"), 400);
  EXPECT_EQ(status("POST", "/v1/models/m:reload", operate, "x"), 400);
  EXPECT_EQ(status("POST", "/v2/repository/models/m/load", operate), 200);
  // Neither is the file with the tokens a model, nor can it be read.
  EXPECT_EQ(status("GET", "/v2/models/.tokens.toml", operate), 404);
}

TEST_F(ServerTest, SaysWhichTokensCannotBe) {
  const auto file = directory_.path() / ".tokens.toml";
  options_.tokens_file = file;
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"", "expected [[token]] tables"},
           {"[[token]]\nname = \"a\"\nrole = \"admin\"\ntoken = \"aaaaaaaaaaaaaaaa\"",
            "line 1: expected name, role (read, infer or operate) and token"},
           {"[[token]]\nname = \"a\"\nrole = \"read\"\ntoken = \"short\"",
            "at least 16 characters"},
           {"[[", "line 1"}}) {
    put_text(file, text);
    const auto error = error_of([&] { InferenceServer server(options_); });
    EXPECT_TRUE(contains(error, message)) << error;
  }
}

TEST_F(ServerTest, APortThatIsTakenIsNamed) {
  client();
  const TemporaryDirectory elsewhere;
  ServeOptions other = options_;
  other.repository = elsewhere.path();
  other.http_port = server_->http_port();
  EXPECT_TRUE(contains(error_of([&] { InferenceServer server(other); }),
                       "127.0.0.1:" + std::to_string(other.http_port) +
                           ": cannot listen (--http-port): Address already in use"));
  other = options_;
  other.repository = elsewhere.path();
  other.grpc_port = server_->grpc_port();
  EXPECT_TRUE(contains(error_of([&] { InferenceServer server(other); }),
                       "cannot listen for gRPC (--grpc-port): Address already in use"));
  other.host = "nowhere";
  EXPECT_TRUE(contains(error_of([&] { InferenceServer server(other); }),
                       "--host nowhere: expected an address"));
}

TEST_F(ServerTest, MetricsHaveTritonsNames) {
  auto http = client();
  for (int i = 0; i < 3; ++i)
    http.post("/v1/models/m:predict", json{{"instances", {{1, 2}, {3, 4}}}});
  http.post("/v1/models/m:predict", json{{"instances", {{1, 2, 3}}}});
  const auto text = http.get("/metrics").body;
  for (const char* line : {"nv_inference_request_success{model=\"m\",version=\"1\"} 3\n",
                           "nv_inference_request_failure{model=\"m\",version=\"1\"} 1\n",
                           "nv_inference_count{model=\"m\",version=\"1\"} 6\n",
                           "nv_inference_exec_count{model=\"m\",version=\"1\"} 3\n",
                           "# TYPE nv_inference_queue_duration_us counter\n",
                           "nv_inference_pending_request_count{model=\"m\",version=\"1\"} 0\n",
                           "sullae_batch_rows_bucket{model=\"m\",version=\"1\",le=\"2\"} 3\n",
                           "sullae_request_duration_seconds_count{model=\"m\",version=\"1\"} 3\n",
                           "sullae_version_serving{model=\"m\",version=\"1\",state=\"READY\"} 1\n"})
    EXPECT_TRUE(contains(text, line)) << line << text;
}

TEST_F(ServerTest, RequestsThatHaveBegunAreAnsweredBeforeItStops) {
  put_text(
      model_ / "config.toml",
      std::string("max_batch_size = 4\nmax_queue_delay_microseconds = 300000\n") + kConstantConfig);
  auto http = client();
  auto idle = client();
  idle.get("/v2");
  const std::string body = R"({"instances": [[1,2]]})";
  http.send("POST /v1/models/m:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
            std::to_string(body.size()) + "\r\n\r\n" + body);
  while (!contains(client().get("/metrics").body,
                   "nv_inference_pending_request_count{model=\"m\",version=\"1\"} 1"))
    std::this_thread::yield();
  std::thread stopper([&] { server_->stop(); });
  const auto answer = http.read_answer();
  EXPECT_EQ(answer.status, 200);
  stopper.join();
  EXPECT_TRUE(idle.is_closed());
}

}  // namespace
}  // namespace sullae::testing
