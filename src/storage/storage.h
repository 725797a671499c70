// Files wherever they are: on this host's disks by their paths, in stores as "s3://bucket/path" and
// "webhdfs://host:port/path".
//
// What reads and writes data sets asks here instead of std::filesystem. All may be called from any
// thread, and throw Error (InputError where a path is at fault), which names the place, and why.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "storage/store.h"

namespace sullae::storage {

/// Whether it is in a store.
bool is_remote(const std::filesystem::path& path);

/// What there is; nothing where there is nothing. Other things than files and folders are files.
/// Throws InputError where that cannot be seen.
std::optional<Status> status(const std::filesystem::path& path);
bool exists(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);
/// What is in a folder, in the order of names.
std::vector<Entry> list(const std::filesystem::path& folder);
/// Those in a folder and in the folders in it, also in those that are links.
void for_each_file(const std::filesystem::path& folder,
                   const std::function<void(const std::filesystem::path&, const Status&)>& act);
/// A file, or a folder with all in it; nothing where there is none.
void remove(const std::filesystem::path& path);
/// With those above it; stores have no folders of their own.
void make_folder(const std::filesystem::path& folder);
/// The whole of a small file.
std::string read_file(const std::filesystem::path& file, std::size_t most);
void write_file(const std::filesystem::path& file, std::string_view text);
/// "a/b/" as "a/b", whose name is "b".
std::filesystem::path without_slash(const std::filesystem::path& path);
/// Without "." and "..", and from the root on.
std::filesystem::path absolute(const std::filesystem::path& path);

/// Reads at any place, from any thread. What was fetched of a file of a store is kept in a file
/// without a name in TMPDIR as long as this lives, so that nothing is fetched twice.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual std::uint64_t size() const = 0;
  /// Exactly `bytes`, which must be there.
  virtual void read(std::uint64_t offset, void* into, std::size_t bytes) const = 0;
};
/// The first `bytes` of a file of a store, or as many as there are.
std::string read_start(const std::filesystem::path& file, const Status& status, std::size_t bytes);

/// To be read in sequence: of a store after the whole of it was fetched, into a file without a name
/// in TMPDIR.
UniqueFd open_whole(const std::filesystem::path& file);

/// A file of a store with this `status` as one of this host's disk, which is there, whole, when
/// this returns.
void download(const std::filesystem::path& remote, const Status& status,
              const std::filesystem::path& file);
/// The other way.
void upload(const std::filesystem::path& file, const std::filesystem::path& remote);

/// Of a store; its `status`.
std::unique_ptr<Reader> open_remote(const std::filesystem::path& file, const Status& status);

/// A file that is whole or absent: on a disk under another name until it is committed; for a store
/// in a file without a name in TMPDIR, which is sent when it is committed. Used by one thread.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& file);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  void write(const void* data, std::size_t bytes);
  void commit();

 private:
  std::filesystem::path path_;
  std::optional<AtomicFile> local_;
  UniqueFd spool_;
  std::uint64_t bytes_ = 0;
};

}  // namespace sullae::storage
