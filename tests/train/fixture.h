// Training runs of a small data set, as a user starts them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/idx_files.h"
#include "support/program.h"
#include "support/temporary_directory.h"
#include "support/variable.h"

namespace sullae::testing {

class Train : public ::testing::Test {
 protected:
  Train() {
    std::filesystem::create_directory(mnist_);
    write_small_mnist(mnist_, 2000, 400);
  }

  // Small MNIST on `ranks` ranks, 34 steps an epoch.
  ProgramResult train(int ranks, std::vector<std::string> options,
                      const std::map<std::string, std::string>& environment = {}) {
    return run_program(words(ranks, std::move(options)), environment);
  }
  std::vector<std::string> words(int ranks, std::vector<std::string> options,
                                 const std::string& model = "mnist") {
    std::vector<std::string> all{sullae_program(),
                                 "run",
                                 "-np",
                                 std::to_string(ranks),
                                 "--cpus-per-rank",
                                 "1",
                                 sullae_program(),
                                 "train",
                                 model,
                                 "--data",
                                 mnist_,
                                 "--batch-size",
                                 "60"};
    all.insert(all.end(), options.begin(), options.end());
    return all;
  }
  // The same, where each rank has a folder of its own, apart/RANK, as ranks of hosts have that
  // share none.
  std::vector<std::string> apart(std::vector<std::string> all) const {
    const auto folder = (directory_.path() / "apart").string() + "/$SULLAE_RANK";
    all.insert(std::find(all.begin() + 1, all.end(), sullae_program()),
               {"sh", "-c", "mkdir -p " + folder + " && cd " + folder + " && exec \"$@\"", "sh"});
    return all;
  }
  nlohmann::json read_json(const std::filesystem::path& file) {
    std::ifstream stream(file);
    return nlohmann::json::parse(stream);
  }
  // Without locks.
  std::vector<std::string> files_in(const std::filesystem::path& directory) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      const auto name = entry.path().filename().string();
      if (!name.ends_with(".lock")) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryDirectory directory_;
  std::filesystem::path mnist_ = directory_.path() / "mnist";
  std::filesystem::path report_ = directory_.path() / "report.json";
  std::filesystem::path checkpoints_ = directory_.path() / "checkpoints";
};

}  // namespace sullae::testing
