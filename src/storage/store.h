// The seam between files and where they are, other than on this host's disks. A kind of store is a
// folder, and a line in stores.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sullae/error.h"

namespace sullae::storage {

/// Of what there may be.
class AccessDenied : public Error {
 public:
  using Error::Error;
};

struct Status {
  bool is_folder = false;
  bool is_file = true;  ///< neither a folder, nor a pipe, a device, or a link to nothing
  std::uint64_t bytes = 0;
  /// Differs when the content does: an entity tag, a time.
  std::string version;
};

inline const Status kFolder{.is_folder = true, .is_file = false, .version = {}};

struct Entry {
  std::string name;
  Status status;
};

/// A host, or a bucket. Paths are those within it, without a slash in front, decoded. Any thread.
/// All throw Error, which names the place as a user does, and why.
class Store {
 public:
  virtual ~Store() = default;
  virtual std::optional<Status> status(const std::string& path) = 0;
  /// What is in a folder, in the order of names.
  virtual std::vector<Entry> list(const std::string& path) = 0;
  /// Exactly `bytes` from `offset`, in pieces. Throws InputError where the file is not of this
  /// `version` any more.
  virtual void read(const std::string& path, const std::string& version, std::uint64_t offset,
                    std::uint64_t bytes, const std::function<void(std::string_view)>& take) = 0;
  /// The first `bytes` of an open file; is there when this returns, whole, and replaces what was
  /// there.
  virtual void write(const std::string& path, int fd, std::uint64_t bytes) = 0;
  /// A file, or a folder with all in it; nothing where there is none.
  virtual void remove(const std::string& path) = 0;
};

/// "https://", and the rest as the user names it.
struct Location {
  std::string scheme;     ///< "s3"
  std::string authority;  ///< "bucket", "host:port"
  std::string path;
  /// "s3://bucket/path", for messages.
  std::string name() const { return scheme + "://" + authority + "/" + path; }
};

}  // namespace sullae::storage
