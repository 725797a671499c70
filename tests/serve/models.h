// Model repositories for tests.
#pragma once

#include <torch/script.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace sullae::testing {

/// A TorchScript module in `<model>/<version>/model.pt`; the version appears whole.
inline void put_script(const std::filesystem::path& model, int version, const std::string& source) {
  torch::jit::Module module("test_model");
  module.define(source);
  const auto making = model / ".making";
  std::filesystem::remove_all(making);
  std::filesystem::create_directories(making);
  module.save((making / "model.pt").string());
  std::filesystem::rename(making, model / std::to_string(version));
}

/// A version that answers `value` for each row, [batch, 2] -> [batch, 1].
inline void put_constant(const std::filesystem::path& model, int version, double value) {
  put_script(model, version,
             "def forward(self, x):\n    return torch.select(x, 1, 0).unsqueeze(1) * 0 + " +
                 std::to_string(value) + "\n");
}

inline void put_text(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

/// Removes a folder that a server may be writing its notes into, which would make remove_all()
/// fail.
inline void take_away(const std::filesystem::path& folder) {
  const auto gone = folder.parent_path() / ".gone";
  std::filesystem::rename(folder, gone);
  std::filesystem::remove_all(gone);
}

/// A classifier of texts into "bad" and "good" that has learnt nothing, with its configuration.
inline void put_text_model(const std::filesystem::path& model, int version = 1) {
  put_text(model / "words.txt", "a\nb\n");
  put_text(model / "classes.txt", "bad\ngood\n");
  put_text(model / "config.toml",
           "preprocessing = \"text\"\nvocabulary = \"words.txt\"\nclasses = \"classes.txt\"\n");
  put_script(model, version,
             "def forward(self, words, lengths):\n"
             "    return torch.stack([lengths, torch.sum(words, 1)], 1) * 1.0\n");
}

/// The configuration of versions that put_constant() makes.
inline constexpr const char* kConstantConfig = R"(
[[inputs]]
name = "x"
datatype = "FP32"
shape = [-1, 2]
[[outputs]]
name = "y"
datatype = "FP32"
shape = [-1, 1]
)";

}  // namespace sullae::testing
