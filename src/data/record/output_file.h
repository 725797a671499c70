// Files that are whole or absent, compressed where their names say so.
#pragma once

#include <zlib.h>

#include <filesystem>
#include <string_view>
#include <vector>

#include "storage/storage.h"

namespace sullae::data {

/// Used by one thread.
class OutputFile {
 public:
  /// Compresses with gzip where the name ends in ".gz".
  explicit OutputFile(const std::filesystem::path& file);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Throws Error that names the file.
  void write(std::string_view bytes);
  /// Puts the file in place.
  void commit();
  bool compressed() const { return compressed_; }

 private:
  void deflate(std::string_view bytes, int flush);
  void flush_buffer();

  storage::NewFile file_;
  bool compressed_;
  z_stream stream_{};
  std::vector<char> buffer_;
};

}  // namespace sullae::data
