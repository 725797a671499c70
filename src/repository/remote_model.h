// A model in a store ("s3://bucket/models/reviews"): what its folder holds there, and it as a copy
// on this host's disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "storage/store.h"

namespace sullae::repository {

/// Whether a version's folder has the model, which is sent last.
bool holds_model(const std::filesystem::path& version);
/// The versions among what a model's folder in the store lists.
std::set<std::int64_t> versions_in(const std::vector<storage::Entry>& entries);

/// Where the copy is, unless somebody says otherwise: a folder of $XDG_CACHE_HOME, or of ~/.cache,
/// for this repository and purpose. Throws InputError where neither is known.
std::filesystem::path default_copy(const std::filesystem::path& remote, const std::string& purpose);

/// A copy of what `path` in a store stands for, as it is on this host's disk: a model's folder
/// (with its newest version), a version's, or a file. Throws as Mirror does.
std::filesystem::path fetch_model(const std::filesystem::path& path);

}  // namespace sullae::repository
