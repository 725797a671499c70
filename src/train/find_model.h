// Which file is meant by a model's name on a command line.
#pragma once

#include <filesystem>

namespace sullae::train {

struct FoundModel {
  std::filesystem::path file;
  /// How it is served, where it is a repository's; it need not be there.
  std::filesystem::path config = {};
};

/// The model that `path` stands for: a file; a version's folder; or the newest of a model's folder
/// in a repository, or of a
/// --checkpoint-dir. What is a repository's, or a file, may be in a store
/// ("s3://bucket/models/mnist"), of which it is copied. Throws InputError, and Error where a store
/// does not answer.
FoundModel find_model(const std::filesystem::path& path);

}  // namespace sullae::train
