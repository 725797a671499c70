// Folders in which versions are put together, and taken apart, in their model's folder: their names
// begin with a dot, so that they are no versions, and say by which process of which host.
#pragma once

#include <filesystem>

namespace sullae::repository {

std::filesystem::path making_in(const std::filesystem::path& model);

/// What a process of this host has left that was killed meanwhile.
void remove_abandoned(const std::filesystem::path& model);

}  // namespace sullae::repository
