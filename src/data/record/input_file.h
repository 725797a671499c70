// Files that may be compressed, read in sequence or whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "storage/store.h"

struct gzFile_s;

namespace sullae::data {

/// Bytes by which is_gzip() tells.
inline constexpr std::size_t kGzipStart = 12;
/// Whether a file that begins with `start` is compressed. A TFRecord's first length may be the two
/// bytes by which zlib tells.
bool is_gzip(std::string_view start);

/// The content of a plain or gzip-compressed file, in sequence. Used by one thread.
class InputFile {
 public:
  /// Throws InputError.
  explicit InputFile(const std::filesystem::path& file);
  /// Reads up to `bytes`; fewer only at the end. Throws InputError for a file that cannot be read
  /// or whose compressed data is damaged or ends early.
  std::size_t read(void* into, std::size_t bytes);

 private:
  std::size_t read_plain(void* into, std::size_t bytes);

  std::string name_;
  UniqueFd plain_;  // of a file that is not compressed, and that zlib takes for one that is
  std::unique_ptr<gzFile_s, int (*)(gzFile_s*)> stream_;
  std::uint64_t position_ = 0;
};

/// `file`, or `file`.gz where only that exists. Throws InputError where neither does.
std::filesystem::path find_file(const std::filesystem::path& file);

/// The first `bytes` of its content, or as many as there are.
std::string read_start(const std::filesystem::path& file, const storage::Status& status,
                       std::size_t bytes);

/// The content of a plain or gzip-compressed file. Throws InputError for one that cannot be read or
/// whose compressed data is damaged or ends early.
std::string read_whole(const std::filesystem::path& file);

}  // namespace sullae::data
