// Files of a test, in a directory of its own.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <sstream>
#include <string>

#include "support/temporary_directory.h"

namespace sullae::testing {

class Files : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& bytes) {
    const auto file = path(name);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }
  std::filesystem::path write_gzip(const std::string& name, const std::string& bytes) {
    const auto file = path(name);
    gzFile stream = ::gzopen(file.c_str(), "wb");
    ::gzwrite(stream, bytes.data(), static_cast<unsigned>(bytes.size()));
    ::gzclose(stream);
    return file;
  }
  static std::string bytes_of(const std::filesystem::path& file) {
    std::ostringstream bytes;
    bytes << std::ifstream(file, std::ios::binary).rdbuf();
    return bytes.str();
  }
  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }
  TemporaryDirectory directory_;
};

}  // namespace sullae::testing
