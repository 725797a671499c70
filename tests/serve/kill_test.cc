// A server that is killed while versions come and go serves a whole one when it starts again.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "base/failpoint.h"
#include "serve/models.h"
#include "serve/server_program.h"
#include "support/http_client.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

TEST(Kill, AWholeVersionAnswersAfterwards) {
  const TemporaryDirectory directory;
  const auto model = directory.path() / "m";
  put_text(model / "config.toml", kConstantConfig);
  put_constant(model, 1, 1);
  for (int version = 2; version < 8; ++version) {
    {
      ServerProgram server(directory.path());
      HttpClient http(server.port());
      // Killed while it loads, switches or notes down what it serves.
      put_constant(model, version, version);
      http.send(
          "POST /v1/models/m:rollback HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
          "application/json\r\nContent-Length: 0\r\n\r\n");
      std::this_thread::sleep_for(std::chrono::milliseconds(7 * version));
      server.kill();
    }
    ServerProgram server(directory.path());
    HttpClient http(server.port());
    const auto answer = http.post("/v2/models/m/infer", std::string(R"({"inputs": [
        {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]})"));
    ASSERT_EQ(answer.status, 200) << answer.body;
    const auto body = answer.json();
    EXPECT_EQ(body["outputs"][0]["data"][0].get<double>(),
              std::stod(body["model_version"].get<std::string>()));
  }
}

// An upload that was answered is there; one that was cut off is there whole or not at all.
TEST(Kill, AnUploadIsThereWholeOrNotAtAll) {
  for (const auto moment : kFailpoints) {
    if (!moment.starts_with("examples.")) continue;
    SCOPED_TRACE(moment);
    const TemporaryDirectory directory;
    const auto model = directory.path() / "texts";
    put_text_model(model);
    const auto body = R"({"examples": [{"key": "a", "text": "good film", "label": "good"},
                                       {"key": "b", "text": "bad film", "label": "bad"}]})";
    {
      ::setenv("SULLAE_CRASH_AT", std::string(moment).c_str(), 1);
      ServerProgram server(directory.path());
      ::unsetenv("SULLAE_CRASH_AT");
      EXPECT_THROW(HttpClient(server.port()).post("/v1/models/texts/examples", std::string(body)),
                   std::exception);
      EXPECT_EQ(server.program().wait().exit_code, 128 + SIGKILL);
    }
    ServerProgram server(directory.path());
    HttpClient http(server.port());
    const auto size = http.get("/v1/models/texts/examples").json()["size"].get<int>();
    EXPECT_EQ(size, moment == "examples.stored" ? 2 : 0);
    EXPECT_EQ(http.post("/v1/models/texts/examples", std::string(body)).status, 200);
    EXPECT_EQ(http.get("/v1/models/texts/examples").json()["size"], 2);
  }
}

}  // namespace
}  // namespace sullae::testing
