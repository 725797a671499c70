// HTTP and gRPC over TLS, with clients that check the certificate.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "serve/models.h"
#include "serve/proto/open_inference.grpc.pb.h"
#include "sullae/serve.h"
#include "support/errors.h"
#include "support/http_client.h"
#include "support/program.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() {
    put_text(directory_.path() / "models" / "m" / "config.toml", kConstantConfig);
    put_constant(directory_.path() / "models" / "m", 1, 7);
    make_certificate("server", "/CN=localhost");
  }
  std::filesystem::path file(const std::string& name) const { return directory_.path() / name; }
  // <name>.pem and <name>.key, signed by itself.
  void make_certificate(const std::string& name, const std::string& subject) {
    const auto made =
        run_program({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                     "-subj", subject, "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                     "-keyout", file(name + ".key"), "-out", file(name + ".pem")});
    ASSERT_EQ(made.exit_code, 0) << made.standard_error;
  }
  ServeOptions options() const {
    return {.repository = file("models"),
            .http_port = 0,
            .grpc_port = 0,
            .tls_certificate = file("server.pem"),
            .tls_key = file("server.key")};
  }
  static std::string read(const std::filesystem::path& name) {
    std::ostringstream text;
    text << std::ifstream(name).rdbuf();
    return text.str();
  }

  TemporaryDirectory directory_;
};

TEST_F(TlsTest, ServesHttpAndGrpc) {
  const InferenceServer server(options());
  const auto port = std::to_string(server.http_port());
  const auto curl = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"curl", "--silent", "--show-error", "--max-time", "30"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  };
  const auto address = "https://localhost:" + port;
  const auto answer = curl({"--cacert", file("server.pem"), address + "/v1/models/m:predict",
                            "--data", R"({"instances": [[1, 2]]})"});
  EXPECT_EQ(answer.standard_output, R"({"predictions":[[7.0]]})") << answer.standard_error;
  EXPECT_NE(curl({"--cacert", file("server.pem"), "--tls-max", "1.1", address + "/v2"}).exit_code,
            0)
      << "versions of TLS that are broken are refused";
  make_certificate("other", "/CN=localhost");
  EXPECT_NE(curl({"--cacert", file("other.pem"), address + "/v2"}).exit_code, 0);

  // Somebody who speaks plain HTTP is not answered in it, and disturbs nobody.
  HttpClient plain(server.http_port());
  plain.send("GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_ANY_THROW(plain.read_answer());
  EXPECT_EQ(curl({"--cacert", file("server.pem"), address + "/v2/health/ready"}).exit_code, 0);

  const auto live = [&](const std::string& roots) {
    const auto stub = inference::GRPCInferenceService::NewStub(grpc::CreateChannel(
        "127.0.0.1:" + std::to_string(server.grpc_port()),
        grpc::SslCredentials(
            {.pem_root_certs = read(roots), .pem_private_key = {}, .pem_cert_chain = {}})));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    inference::ServerLiveResponse response;
    return stub->ServerLive(&context, {}, &response).ok() && response.live();
  };
  EXPECT_TRUE(live(file("server.pem")));
  EXPECT_FALSE(live(file("other.pem")));
}

TEST_F(TlsTest, SaysWhatIsWrong) {
  const auto error = [](const ServeOptions& wrong) {
    return error_of([&] { InferenceServer server(wrong); });
  };
  auto wrong = options();
  wrong.tls_key.clear();
  EXPECT_TRUE(contains(error(wrong), "TLS: expected a certificate and a key")) << error(wrong);
  wrong = options();
  wrong.tls_certificate = "/nonexistent.pem";
  EXPECT_TRUE(contains(error(wrong), "/nonexistent.pem")) << error(wrong);
  wrong = options();
  wrong.tls_key = file("models/m/config.toml");
  EXPECT_TRUE(contains(error(wrong), "config.toml")) << error(wrong);
  make_certificate("other", "/CN=localhost");
  wrong = options();
  wrong.tls_key = file("other.key");
  EXPECT_TRUE(contains(error(wrong), "other.key")) << error(wrong);
}

}  // namespace
}  // namespace sullae::testing
