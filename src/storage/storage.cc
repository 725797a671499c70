#include "storage/storage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/descriptors.h"
#include "storage/spool.h"
#include "storage/stores.h"

namespace sullae::storage {
namespace {

namespace fs = std::filesystem;

bool is_absent(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG;
}

// Nothing where there is nothing, also at the end of a link. Throws InputError where that cannot be
// seen.
std::optional<Status> local_status(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (is_absent(errno)) return std::nullopt;
    throw InputError(fmt::format("{}: {}", path.string(), std::strerror(errno)));
  }
  if (S_ISDIR(status.st_mode)) {
    return Status{.is_folder = true, .is_file = false, .bytes = 0, .version = {}};
  }
  const auto nanoseconds =
      std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  return Status{.is_folder = false,
                .is_file = S_ISREG(status.st_mode),
                .bytes = static_cast<std::uint64_t>(status.st_size),
                .version = std::to_string(nanoseconds)};
}

// Also of what cannot be seen: a folder may hold such things.
Status status_in_list(const fs::path& path) {
  Status none{.is_file = false, .version = {}};
  try {
    return local_status(path).value_or(none);
  } catch (const InputError&) {
    return none;
  }
}

// A folder, by whatever path.
using FolderId = std::pair<dev_t, ino_t>;

std::optional<FolderId> id_of(const fs::path& folder) {
  struct stat status {};
  if (is_remote(folder) || ::stat(folder.c_str(), &status) != 0) return std::nullopt;
  return FolderId{status.st_dev, status.st_ino};
}

// `above`: the folders that this one was come to through, to which a link may lead back.
void walk(const fs::path& folder, const std::function<void(const fs::path&, const Status&)>& act,
          std::vector<FolderId>& above) {
  const auto id = id_of(folder);
  if (id && std::ranges::count(above, *id) > 0) return;
  if (id) above.push_back(*id);
  for (const auto& entry : list(folder)) {
    if (entry.status.is_folder) {
      walk(folder / entry.name, act, above);
    } else {
      act(folder / entry.name, entry.status);
    }
  }
  if (id) above.pop_back();
}

Status file_status(Store& store, const Location& location) {
  auto status = store.status(location.path);
  if (!status || status->is_folder)
    throw InputError(fmt::format("{}: there is no such file", location.name()));
  return *std::move(status);
}

}  // namespace

bool is_remote(const fs::path& path) { return find_location(path).has_value(); }

std::optional<Status> status(const fs::path& path) {
  if (const auto location = find_location(path)) return store_of(*location).status(location->path);
  return local_status(path);
}

bool exists(const fs::path& path) { return storage::status(path).has_value(); }

bool is_folder(const fs::path& path) {
  const auto found = storage::status(path);
  return found && found->is_folder;
}

std::vector<Entry> list(const fs::path& folder) {
  if (const auto location = find_location(folder)) {
    auto entries = store_of(*location).list(location->path);
    // What leads elsewhere, joined to a path, is the name of nothing.
    std::erase_if(entries, [](const Entry& entry) {
      return entry.name.empty() || entry.name == "." || entry.name == ".." ||
             entry.name.find('/') != std::string::npos;
    });
    return entries;
  }
  std::error_code error;
  const auto paths = entries_of(folder, error);
  if (!paths)
    throw InputError(fmt::format("{}: cannot be read: {}", folder.string(), error.message()));
  std::vector<Entry> entries;
  for (const auto& path : *paths)
    entries.push_back({.name = path.filename().string(), .status = status_in_list(path)});
  return entries;
}

void for_each_file(const fs::path& folder,
                   const std::function<void(const fs::path&, const Status&)>& act) {
  std::vector<FolderId> above;
  walk(folder, act, above);
}

void remove(const fs::path& path) {
  if (const auto location = find_location(path)) {
    store_of(*location).remove(location->path);
    return;
  }
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw Error(fmt::format("{}: cannot be removed: {}", path.string(), error.message()));
}

void make_folder(const fs::path& folder) {
  if (is_remote(folder)) return;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw InputError(fmt::format("{}: cannot be made: {}", folder.string(), error.message()));
}

std::string read_start(const fs::path& file, const Status& status, std::size_t bytes) {
  const auto location = find_location(file).value();
  std::string text;
  store_of(location).read(location.path, status.version, 0,
                          std::min<std::uint64_t>(bytes, status.bytes),
                          [&](std::string_view piece) { text += piece; });
  return text;
}

std::string read_file(const fs::path& file, std::size_t most) {
  const auto location = find_location(file);
  if (!location) return sullae::read_file(file, most);
  const Status status = file_status(store_of(*location), *location);
  if (status.bytes > most)
    throw InputError(
        fmt::format("{}: has {} bytes, expected at most {}", location->name(), status.bytes, most));
  return read_start(file, status, most);
}

void write_file(const fs::path& file, std::string_view text) {
  if (!is_remote(file)) {
    sullae::write_file(file, text);
    return;
  }
  NewFile fresh(file);
  fresh.write(text.data(), text.size());
  fresh.commit();
}

fs::path without_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

fs::path absolute(const fs::path& path) {
  if (const auto location = find_location(path)) {
    const std::string name = location->name();
    return name.substr(0, name.find_last_not_of('/') + 1);
  }
  std::error_code error;
  return fs::absolute(path, error).lexically_normal();
}

UniqueFd open_whole(const fs::path& file) {
  const auto location = find_location(file);
  if (!location) {
    UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd)
      throw InputError(fmt::format("{}: cannot be opened: {}{}", file.string(),
                                   std::strerror(errno), descriptors_hint(errno)));
    return fd;
  }
  Store& store = store_of(*location);
  const Status status = file_status(store, *location);
  UniqueFd spool = make_spool();
  fetch_to_spool(spool.get(), store, location->path, status.version, 0, status.bytes);
  return spool;
}

void download(const fs::path& remote, const Status& status, const fs::path& file) {
  const auto location = find_location(remote).value();
  AtomicFile whole(file);
  store_of(location).read(location.path, status.version, 0, status.bytes,
                          [&](std::string_view piece) { whole.write(piece.data(), piece.size()); });
  whole.commit();
}

void upload(const fs::path& file, const fs::path& remote) {
  const auto location = find_location(remote).value();
  const UniqueFd fd = open_whole(file);
  store_of(location).write(location.path, fd.get(), local_status(file).value().bytes);
}

NewFile::NewFile(const fs::path& file) : path_(file) {
  if (is_remote(file)) {
    spool_ = make_spool();
  } else {
    local_.emplace(file);
  }
}

NewFile::~NewFile() = default;

void NewFile::write(const void* data, std::size_t bytes) {
  if (local_) {
    local_->write(data, bytes);
  } else {
    write_spool(spool_.get(), bytes_, data, bytes);
  }
  bytes_ += bytes;
}

void NewFile::commit() {
  if (local_) {
    local_->commit();
    return;
  }
  const auto location = find_location(path_).value();
  store_of(location).write(location.path, spool_.get(), bytes_);
}

}  // namespace sullae::storage
