// Trained models as versions of a model repository.
#pragma once

#include <filesystem>
#include <string>

#include "sullae/torch/checkpoint.h"

namespace sullae::train {

/// repository::publish_version() of a model.ckpt.
std::filesystem::path export_version(const std::filesystem::path& repository,
                                     const std::string& name,
                                     const SerializedCheckpoint& checkpoint);

}  // namespace sullae::train
