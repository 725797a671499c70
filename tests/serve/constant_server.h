// A server in this process with one small model, for tests of what clients meet.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "serve/models.h"
#include "sullae/serve.h"
#include "support/http_client.h"
#include "support/temporary_directory.h"
#include "support/wait_until.h"

namespace sullae::testing {

/// Serves model "m", which answers 7 for each of at most 4 rows. A test may change `options_` and
/// the files before its first client().
class ConstantServerTest : public ::testing::Test {
 protected:
  ConstantServerTest() {
    put_text(model_ / "config.toml", std::string("max_batch_size = 4\n") + kConstantConfig);
    put_constant(model_, 1, 7);
    options_.repository = directory_.path();
    options_.http_port = 0;
    options_.grpc_port = 0;
    options_.poll = std::chrono::milliseconds(20);
  }
  /// A connection to the server, which is started by the first call.
  HttpClient client() {
    if (!server_) {
      server_.emplace(options_);
      // What was just written is taken to be whole when it is as it was a moment ago.
      wait_until(
          [&] { return HttpClient(server_->http_port()).get("/v2/health/ready").status == 200; });
    }
    return HttpClient(server_->http_port());
  }

  TemporaryDirectory directory_;
  std::filesystem::path model_ = directory_.path() / "m";
  ServeOptions options_;
  std::optional<InferenceServer> server_;
};

}  // namespace sullae::testing
