// What there is in a model's folder, and whether it is within the repository.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <system_error>

namespace sullae::repository {

/// The versions on the disk; nothing, with `error` set, where the folder cannot be listed now.
std::optional<std::set<std::int64_t>> versions_in(const std::filesystem::path& directory,
                                                  std::error_code& error);
/// Throws Error instead.
std::set<std::int64_t> versions_in(const std::filesystem::path& directory);

/// The file that holds the model of a version, in its folder: the first of kModelFiles; an empty
/// path where there is none. Throws InputError for what is no regular file, a pipe, say, which
/// reading would wait for.
std::filesystem::path model_file_in(const std::filesystem::path& version);

/// Throws InputError where it is no folder, or a model's own.
void expect_repository(const std::filesystem::path& directory);

/// Why `path` leads out of `repository`; an empty text where it is within.
std::string link_out_of(const std::filesystem::path& repository, const std::filesystem::path& path);
/// The same of `path` and of all below it.
std::string way_out_of(const std::filesystem::path& repository, const std::filesystem::path& path);

}  // namespace sullae::repository
