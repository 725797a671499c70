// A dashboard in this process, over a folder of its own.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "dashboard/dashboard.h"
#include "sullae/run_log.h"
#include "support/http_client.h"
#include "support/temporary_directory.h"
#include "support/variable.h"

namespace sullae::testing {

class DashboardTest : public ::testing::Test {
 protected:
  DashboardTest() {
    std::filesystem::create_directory(root_);
    options_.folder = root_;
    options_.port = 0;
  }
  /// Started by the first call: a test may change `options_` before.
  dashboard::Dashboard& dashboard() {
    if (!dashboard_) dashboard_.emplace(options_);
    return *dashboard_;
  }
  HttpAnswer ask(const std::string& path, const std::map<std::string, std::string>& headers = {}) {
    return HttpClient(dashboard().port()).ask("GET", path, "", headers);
  }
  nlohmann::json get(const std::string& path) {
    const auto answer = ask(path);
    EXPECT_EQ(answer.status, 200) << path << ": " << answer.body;
    return answer.json();
  }
  std::string error(const std::string& path, int status) {
    const auto answer = ask(path);
    EXPECT_EQ(answer.status, status) << path << ": " << answer.body;
    return answer.json().value("error", answer.body);
  }
  /// A run with `steps` points, open.
  RunLog run(const std::string& name, int steps, const RunDescription& description = {}) {
    RunLog log(root_ / name, description);
    for (int step = 1; step <= steps; ++step)
      log.scalars(step, {{"train/loss", 1.0 / step}, {"train/lr", 0.1}});
    return log;
  }
  void put(const std::filesystem::path& file, const std::string& text) const {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }

  TemporaryDirectory directory_;
  /// No cluster of this machine's user.
  const Variable cluster_{"SULLAE_CLUSTER", "/nonexistent"};
  std::filesystem::path root_ = directory_.path() / "root";
  dashboard::Options options_;
  std::optional<dashboard::Dashboard> dashboard_;
};

}  // namespace sullae::testing
