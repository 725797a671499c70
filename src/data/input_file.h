// Files that may be compressed, read whole.
#pragma once

#include <filesystem>
#include <string>

namespace sullae::data {

/// `file`, or `file`.gz where only that exists. Throws InputError where neither does.
std::filesystem::path find_file(const std::filesystem::path& file);

/// The content of a plain or gzip-compressed file. Throws InputError for one that cannot be read or
/// whose compressed data is damaged or ends early.
std::string read_whole(const std::filesystem::path& file);

}  // namespace sullae::data
