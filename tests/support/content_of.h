// What is in a file.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace sullae::testing {

/// Nothing of a file that is not there, or that ended meanwhile as a process's do in /proc.
inline std::string content_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace sullae::testing
