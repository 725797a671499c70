// Tar archives (POSIX.1-2001 ustar and pax, and GNU's long names) of samples.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "sullae/data/example.h"

namespace sullae::data {

/// Writes a tar archive, gzip-compressed where its name ends in ".gz". It appears when close() is
/// called, whole, and not at all without it. Used by one thread.
class TarWriter {
 public:
  explicit TarWriter(const std::filesystem::path& file);
  ~TarWriter();
  TarWriter(const TarWriter&) = delete;
  TarWriter& operator=(const TarWriter&) = delete;
  /// Adds a file. Throws Error that names the archive, e.g. for a full disk.
  void write(std::string_view name, std::string_view content);
  /// Adds an example in the WebDataset layout: "KEY.jpg", "KEY.cls" and so on. Throws InputError
  /// for features that the layout has no extension for.
  void write(std::string_view key, const Example& example);
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sullae::data
