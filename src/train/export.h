// Trained models as versions of a model repository.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "train/description.h"

namespace sullae::train {

/// repository::publish_version() of the checkpoint that `write` writes to `file`.
std::filesystem::path export_version(
    const std::filesystem::path& repository, const std::string& name,
    const std::function<void(const std::filesystem::path& file)>& write);

/// Before a training whose model becomes a version of the folder `model`: throws InputError where
/// what clients send to its newest one, or get from it, is something else, and warns where its
/// classes are others.
void check_replaces(const std::filesystem::path& model, const ModelDescription& own);

}  // namespace sullae::train
