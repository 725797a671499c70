// Trained models as versions of a model repository, which `sullae serve` serves.
#pragma once

#include <filesystem>
#include <string>

#include "sullae/torch/checkpoint.h"

namespace sullae::train {

/// The file of a version that holds a Sullae checkpoint.
inline constexpr const char* kModelFile = "model.ckpt";
/// What tells how a model is served, beside its versions.
inline constexpr const char* kModelConfig = "config.toml";

/// Writes `<repository>/<name>/<n>/model.ckpt`, n being one more than the largest number there, and a
/// config.toml where there is none. The version appears whole or not at all. Returns its folder. Throws
/// Error, and InputError for a name that cannot be a folder's.
std::filesystem::path export_version(const std::filesystem::path& repository,
                                     const std::string& name,
                                     const SerializedCheckpoint& checkpoint);

/// Takes version `number` out of the folder of its model, whole, and then from the disk. Where that fails, a
/// warning says why.
void remove_version(const std::filesystem::path& model, std::int64_t number);

/// The number that a folder's name is, from 1; 0 for other names.
std::int64_t version_number(const std::string& name);

}  // namespace sullae::train
