// A small set of labelled texts, and a model of it in a repository.
#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "train/export_model.h"

namespace sullae::testing {

/// "train.tsv" and "test.tsv" in `directory`: what is praised has label 1, what is blamed 0. A
/// "twist" is always blamed.
inline void write_small_texts(const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  const std::vector<std::string> praise = {"good", "great", "warm", "clever"};
  const std::vector<std::string> blame = {"bad", "dull", "cold", "twist"};
  const auto write = [&](const char* name, int rows, int shift) {
    std::ofstream file(directory / name);
    file << "text\tlabel\n";
    for (int i = 0; i < rows; ++i) {
      const auto& words = i % 2 == 1 ? praise : blame;
      const auto k = static_cast<std::size_t>(i / 2 + shift);
      file << "film" << k % 23 << " is " << words[k % 4] << " and " << words[(k / 4) % 4] << " n"
           << k % 7 << '\t' << i % 2 << '\n';
    }
  };
  write("train.tsv", 400, 0);
  write("test.tsv", 100, 400);
}

/// Reviews in which a twist is praised, which the model of the small texts does not know.
inline std::vector<train::AddedSample> praised_twists(int count) {
  std::vector<train::AddedSample> samples;
  for (int i = 0; i < count; ++i)
    samples.push_back({"what a twist in film" + std::to_string(i), "1"});
  return samples;
}

inline train::RecipeOptions small_text_options(const std::filesystem::path& data) {
  auto options = defaults_of("text");
  options.data = data;
  options.epochs = 3;
  options.batch_size = 20;
  options.lr = 0.05;
  options.extra["embedding-size"] = 8;
  options.extra["word-pairs"] = 0;
  options.extra["dropout"] = 0;
  return options;
}

/// Trains on the small texts in `data` and exports to `repository` under the name "texts".
inline void export_small_texts(const std::filesystem::path& data,
                               const std::filesystem::path& repository) {
  write_small_texts(data);
  export_model("text", small_text_options(data), repository, "texts");
}

}  // namespace sullae::testing
