// Texts with few words in an order that can be learnt, and a language model of them in a
// repository.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "train/export_model.h"

namespace sullae::testing {

/// Lines that count from one to seven.
inline std::string small_prose(int lines) {
  std::string text;
  for (int line = 0; line < lines; ++line) text += "one two three four five six seven\n";
  return text;
}

inline void write_small_prose(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "train.txt") << small_prose(400);
  std::ofstream(folder / "test.txt") << small_prose(40);
}

/// Exports a model that has learnt the small prose in `data` to `repository` under the name
/// "writer".
inline void export_small_writer(const std::filesystem::path& data,
                                const std::filesystem::path& repository) {
  write_small_prose(data);
  auto options = defaults_of("gpt");
  options.data = data;
  options.epochs = 8;
  options.batch_size = 8;
  options.lr = 0.01;
  options.extra["pieces"] = 400;
  options.extra["context"] = 12;
  options.extra["embedding-size"] = 16;
  options.extra["heads"] = 2;
  options.extra["layers"] = 2;
  options.extra["dropout"] = 0;
  export_model("gpt", options, repository, "writer");
}

}  // namespace sullae::testing
