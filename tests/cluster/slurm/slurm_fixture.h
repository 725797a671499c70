// A Slurm that a test starts, and what users type. Where Slurm is not installed such tests are
// skipped, and say so.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "cluster/command.h"
#include "support/errors.h"
#include "support/program.h"
#include "support/temporary_directory.h"

namespace sullae::cluster {

using testing::contains;
using testing::Program;
using testing::ProgramResult;
using testing::run_program;
using testing::sullae_program;
using testing::TemporaryDirectory;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

inline constexpr std::chrono::seconds kLong{150};

// Three nodes of two processors; each test has its own.
class SlurmTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* const program : {"slurmctld", "slurmd", "munged", "sbatch"}) {
      if (is_installed(program) || is_installed(std::string("/usr/sbin/") + program)) continue;
      GTEST_SKIP() << program
                   << " IS NOT INSTALLED: NOTHING OF `sullae jobs` IS TESTED HERE; "
                      "scripts/setup.sh test installs it";
    }
    const auto up = sullae({"cluster", "up", "--nodes", "3", "--cpus", "2", "--idle", "600"});
    ASSERT_EQ(up.exit_code, 0) << up.standard_error;
    is_up_ = true;
  }

  void TearDown() override {
    if (!is_up_) return;
    if (HasFailure()) std::printf("%s\n", sullae({"jobs", "list"}).standard_output.c_str());
    const auto down = sullae({"cluster", "down"});
    EXPECT_EQ(down.exit_code, 0) << down.standard_error;
    EXPECT_TRUE(testing::vanish(cluster()));
    for (const char* const name : {"run", "state", "spool", "log", "slurm.conf", "cluster.toml"})
      EXPECT_FALSE(std::filesystem::exists(directory_.path() / name)) << name;
  }

  std::string cluster() const { return directory_.path().string(); }
  std::map<std::string, std::string> environment() const {
    return {{"SULLAE_CLUSTER", cluster()},
            {"OMP_NUM_THREADS", "1"},
            {"SLURM_CONF", cluster() + "/slurm.conf"}};
  }
  ProgramResult sullae(Words words) const {
    words.insert(words.begin(), sullae_program());
    return run_program(words, environment(), work_.path().string());
  }
  /// The job's name.
  std::string submit(Words words) const {
    words.insert(words.begin(), {"jobs", "submit"});
    const auto result = sullae(words);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return result.standard_output.substr(0, result.standard_output.find('\n'));
  }
  std::string error_of(Words words) const {
    words.insert(words.begin(), "jobs");
    const auto result = sullae(words);
    EXPECT_EQ(result.exit_code, 1) << result.standard_output;
    return result.standard_error;
  }
  Json show(const std::string& job) const {
    const auto result = sullae({"jobs", "show", job, "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return Json::parse(result.standard_output);
  }
  Json wait_for(const std::string& job, const std::function<bool(const Json&)>& condition,
                std::chrono::seconds limit = kLong) const {
    const auto end = std::chrono::steady_clock::now() + limit;
    for (;;) {
      Json seen = show(job);
      if (condition(seen)) return seen;
      if (std::chrono::steady_clock::now() > end) {
        ADD_FAILURE() << "still " << seen.dump() << "\n" << log_of(job);
        return seen;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{300});
    }
  }
  Json wait_for_state(const std::string& job, const std::string& state) const {
    return wait_for(job, [&](const Json& seen) { return seen.at("state") == state; });
  }
  Json wait_for_nodes(const std::string& job, int nodes) const {
    return wait_for(job, [&](const Json& seen) {
      return seen.at("state") == "running" && seen.at("nodes") == nodes;
    });
  }
  std::string log_of(const std::string& job) const {
    return sullae({"jobs", "logs", job}).standard_output;
  }
  // So that what follows need not wait for nodes to start.
  void start_nodes() const {
    const auto job = submit({"--name", "warm", "--nodes", "3", "true"});
    wait_for_state(job, "completed");
  }

  TemporaryDirectory directory_;
  TemporaryDirectory work_;
  bool is_up_ = false;
};

}  // namespace sullae::cluster
