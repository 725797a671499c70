// Files that are either whole or absent.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/fd.h"

namespace sullae {

/// Standard output and error of this process go there from now on, behind what is there. Throws
/// Error.
void append_output_to(const std::filesystem::path& file);

/// What makes another name of a file's that nobody else uses, of whatever process on whatever host:
/// ".tmp-…".
std::string temporary_suffix();

/// Writes a file under a temporary name beside its place, and moves it there when it is complete
/// and on the disk. What is not committed is removed. Used by one thread.
class AtomicFile {
 public:
  /// Throws Error that names the file where it cannot be made.
  explicit AtomicFile(std::filesystem::path target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Behind what was written so.
  void write(const void* data, std::size_t bytes);
  /// Writes at `offset`, over what was there or behind the end.
  void write_at(std::size_t offset, const void* data, std::size_t bytes);
  /// Where it is until it is committed: for the PartOfFile of other processes.
  const std::filesystem::path& temporary() const { return temporary_; }
  /// Syncs, renames, and syncs the directory.
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  UniqueFd fd_;
  std::size_t end_ = 0;  // of what write() has written
};

/// What another process writes of an AtomicFile that is not committed yet. Used by one thread.
class PartOfFile {
 public:
  /// Throws Error where `temporary` cannot be written; where it does not begin with `start`, and
  /// then is another one, of another host perhaps; and on file systems where two hosts may write
  /// over each other's parts of a page (NFS, SMB, FUSE).
  PartOfFile(std::filesystem::path temporary, std::string_view start);
  void write_at(std::size_t offset, const void* data, std::size_t bytes);
  /// Until it is on the disk.
  void sync();

 private:
  std::filesystem::path path_;
  UniqueFd fd_;
};

/// What is in `directory`, in the order of names; nothing, with `error` set, where it cannot be
/// read whole. Does not throw: folders come and go.
std::optional<std::vector<std::filesystem::path>> entries_of(const std::filesystem::path& directory,
                                                             std::error_code& error);

/// Makes `folder` where it is not there; says why where nothing can be written to it. Does not
/// throw.
std::error_code make_writable(const std::filesystem::path& folder);

/// Puts a change of names in `directory` on the disk.
void sync_directory(const std::filesystem::path& directory);

/// The whole of `file`, which somebody may have put there by mistake: throws InputError that names
/// it where it is no regular file (reading a pipe would wait for ever), cannot be read, or has more
/// than `most` bytes.
std::string read_file(const std::filesystem::path& file, std::size_t most);

/// Replaces `file` with `text`, atomically.
void write_file(const std::filesystem::path& file, std::string_view text);

}  // namespace sullae
