// Trained models as versions of a model repository.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace sullae::train {

/// repository::publish_version() of the checkpoint that `write` writes to `file`.
std::filesystem::path export_version(
    const std::filesystem::path& repository, const std::string& name,
    const std::function<void(const std::filesystem::path& file)>& write);

}  // namespace sullae::train
