// Models in a store: what is served follows what is there.
#include <gtest/gtest.h>

#include "serve/models.h"
#include "serve/server_program.h"
#include "support/errors.h"
#include "support/http_client.h"
#include "support/store_server.h"
#include "support/temporary_directory.h"
#include "support/wait_until.h"

namespace sullae::testing {
namespace {

namespace fs = std::filesystem;

class ServedStore : public ::testing::Test {
 protected:
  ServedStore() {
    put_text(directory_.path() / "m" / "config.toml", kConstantConfig);
    send(directory_.path() / "m" / "config.toml");
    put(1);
  }
  // The version that answers its own number.
  void put(int version) {
    put_constant(directory_.path() / "m", version, version);
    send(directory_.path() / "m" / std::to_string(version) / "model.pt");
  }
  void send(const fs::path& file) {
    server_.put_file("models/" + fs::relative(file, directory_.path()).string(), file);
  }
  std::vector<std::string> copy() const {
    return {"--repository-copy", (directory_.path() / "copy").string()};
  }
  static std::string answer_of(const ServerProgram& program) {
    HttpClient client(program.port());
    return client.post("/v1/models/m:predict", std::string(R"({"instances": [[1, 2]]})")).body;
  }
  static void wait_for(const ServerProgram& program, int version) {
    wait_until([&] { return contains(answer_of(program), std::to_string(version) + ".0"); });
  }

  const StoreServer& server_ = StoreServer::empty();
  TemporaryDirectory directory_;
};

TEST_F(ServedStore, AnswersWithTheNewestVersion) {
  const ServerProgram program(server_.s3("models"), copy());
  wait_for(program, 1);
  put(2);
  wait_for(program, 2);
}

TEST_F(ServedStore, IsServedFromItsCopyWhereTheStoreIsDown) {
  {
    const ServerProgram program(server_.s3("models"), copy());
    wait_for(program, 1);
  }
  server_.fail(R"(["403", "403", "403", "403", "403", "403", "403", "403", "403", "403", "403"])");
  const ServerProgram program(server_.s3("models"), copy());
  wait_for(program, 1);
  server_.fail("[]");
  put(2);
  wait_for(program, 2);
}

TEST_F(ServedStore, SaysWhatCannotBe) {
  const auto error = [](const std::vector<std::string>& words) {
    std::vector<std::string> all{sullae_program(), "serve", "--http-port", "0", "--grpc-port", "0"};
    all.insert(all.end(), words.begin(), words.end());
    const auto result = run_program(all);
    EXPECT_EQ(result.exit_code, 1);
    return result.standard_error;
  };
  EXPECT_TRUE(contains(error({server_.s3("none")}), "s3://bucket/none: is no folder"));
  EXPECT_TRUE(contains(error({server_.s3("models/m")}), "expected the folder that has it"));
  EXPECT_TRUE(contains(error({server_.s3("models"), "--online"}),
                       "--online: publishes versions beside those that are served"));
  EXPECT_TRUE(contains(error({directory_.path().string(), "--repository-copy", "/tmp/none"}),
                       "is in no store, and is served where it is"));
  EXPECT_TRUE(contains(
      run_program({sullae_program(), "online", server_.s3("models")}).standard_error,
      "s3://bucket/models: online learning publishes versions beside those that are served"));
}

}  // namespace
}  // namespace sullae::testing
