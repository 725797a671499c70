// A repository of a model whose versions answer a constant each.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <future>
#include <optional>
#include <string>

#include "serve/models.h"
#include "serve/repository/repository.h"
#include "support/temporary_directory.h"
#include "support/wait_until.h"

namespace sullae::testing {

class ServedConstants : public ::testing::Test {
 protected:
  ServedConstants() { put_text(model_ / "config.toml", kConstantConfig); }

  void start() {
    repository_.emplace(serve::RepositoryOptions{.directory = directory_.path(),
                                                 .poll = std::chrono::milliseconds(20)});
    repository_->start();
  }
  // The constant that answers.
  float ask(const std::string& version = "") {
    const float row[2] = {1, 2};
    serve::InferRequest request{
        .inputs = {{.name = "x",
                    .shape = {1, 2},
                    .data = {reinterpret_cast<const char*>(row), sizeof row}}}};
    std::promise<serve::Version::Result> promise;
    serve::Version::infer(
        repository_->choose("m", version), std::move(request),
        [&](serve::Version::Result result) { promise.set_value(std::move(result)); });
    const auto result = promise.get_future().get();
    if (result.error) std::rethrow_exception(result.error);
    float value = 0;
    std::memcpy(&value, result.response.outputs.at(0).data.data(), sizeof value);
    EXPECT_TRUE(version.empty() || result.response.model_version == version);
    return value;
  }
  serve::VersionStatus version(std::int64_t number) {
    for (const auto& status : repository_->status("m").versions) {
      if (status.number == number) return status;
    }
    return {};
  }
  void wait_for(float constant) {
    wait_until([&] { return ask() == constant; });
  }

  TemporaryDirectory directory_;
  std::filesystem::path model_ = directory_.path() / "m";
  std::optional<serve::Repository> repository_;
};

}  // namespace sullae::testing
