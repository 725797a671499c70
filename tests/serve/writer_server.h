// A server in this process with a small language model, "writer", beside the model "m".
#pragma once

#include <string>

#include "serve/constant_server.h"
#include "train/small_prose.h"

namespace sullae::testing {

class WriterServerTest : public ConstantServerTest {
 protected:
  static void SetUpTestSuite() {
    made_ = new TemporaryDirectory;
    export_small_writer(made_->path() / "prose", made_->path() / "models");
  }
  static void TearDownTestSuite() { delete made_; }

  WriterServerTest() {
    std::filesystem::copy(made_->path() / "models", directory_.path(),
                          std::filesystem::copy_options::recursive);
  }
  HttpClient ready() {
    wait_until([&] { return client().get("/v2/models/writer/ready").status == 200; });
    return client();
  }
  static int of_writer(HttpClient& http, const char* metric) {
    const auto answer = http.get("/v1/models").json();
    for (const auto& model : answer["models"]) {
      if (model["name"] == "writer") return model["versions"][0]["metrics"][metric];
    }
    return 0;
  }

  static inline TemporaryDirectory* made_ = nullptr;
};

}  // namespace sullae::testing
