// `sullae pipeline run` of a file in a folder of its own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "support/content_of.h"
#include "support/errors.h"
#include "support/program.h"
#include "support/temporary_directory.h"

namespace sullae::testing {

class PipelineRun : public ::testing::Test {
 protected:
  void define(const std::string& text) { write_file(file_, text); }
  std::vector<std::string> words(std::vector<std::string> options = {}) const {
    std::vector<std::string> all{sullae_program(), "pipeline", "run", file_};
    all.insert(all.end(), options.begin(), options.end());
    return all;
  }
  ProgramResult run(const std::vector<std::string>& options = {}) const {
    return run_program(words(options));
  }
  ProgramResult show(std::vector<std::string> options = {}) const {
    options.insert(options.begin(), {sullae_program(), "pipeline", "show", file_});
    return run_program(options);
  }
  std::string state_of(const std::string& step) const {
    return nlohmann::json::parse(show({"--json"}).standard_output).at("steps").at(step).at("state");
  }
  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }
  std::string read(const std::string& name) const { return content_of(path(name)); }
  // How often a step has written its letter.
  long count(char step) const { return std::ranges::count(read("trace"), step); }

  TemporaryDirectory directory_;
  std::filesystem::path file_ = path("nightly.toml");
};

}  // namespace sullae::testing
