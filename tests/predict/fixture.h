// Reviews, a model that knows them, and `sullae predict` as a user runs it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "predict/review_model.h"
#include "support/content_of.h"
#include "support/program.h"
#include "support/temporary_directory.h"

namespace sullae::testing {

namespace fs = std::filesystem;

class Predict : public ::testing::Test {
 protected:
  Predict() { put_model(1); }
  void put_model(int version) { put_review_model(model_, version); }

  static std::string read(const fs::path& file) { return content_of(file); }
  // So many rows with an id, a text, and a label that is right for three of four.
  void put_reviews(int rows, const std::string& name = "reviews.csv") {
    std::string text = "id,text,label\n";
    for (int i = 0; i < rows; ++i) {
      std::string words = i % 2 == 0 ? "b" : "a";
      for (int word = 0; word < i % 7; ++word) words += i % 2 == 0 ? " b" : " a";
      const bool is_good = (i % 2 == 0) != (i % 4 == 3);
      text += fmt::format("r{},\"{}\",{}\n", i, words, is_good ? "good" : "bad");
    }
    put_text(directory_.path() / name, text);
  }
  std::vector<std::string> words(int ranks, const std::vector<std::string>& options) {
    std::vector<std::string> all{sullae_program()};
    if (ranks > 1)
      all.insert(all.end(), {"run", "--no-tag", "-np", std::to_string(ranks), sullae_program()});
    all.insert(all.end(), {"predict", model_.string(), "--output", out_.string()});
    all.insert(all.end(), options.begin(), options.end());
    return all;
  }
  ProgramResult predict(std::vector<std::string> options, int ranks = 1) {
    return run_program(words(ranks, std::move(options)));
  }
  std::string error_of_predict(std::vector<std::string> options) {
    const auto result = predict(std::move(options));
    EXPECT_EQ(result.exit_code, 1) << result.standard_output;
    return result.standard_error;
  }
  // All files of the output by name, but for what describes the run.
  std::map<std::string, std::string> contents(const fs::path& folder) {
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file() && entry.path().filename() != "_predict.json")
        found[fs::relative(entry.path(), folder)] = read(entry.path());
    }
    return found;
  }
  std::string reviews() const { return directory_.path() / "reviews.csv"; }

  TemporaryDirectory directory_;
  fs::path model_ = directory_.path() / "models" / "texts";
  fs::path out_ = directory_.path() / "out";
};

}  // namespace sullae::testing
