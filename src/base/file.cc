#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <random>

#include "base/failpoint.h"
#include "base/file_system.h"
#include "base/system_error.h"
#include "sullae/error.h"

namespace sullae {
namespace {

std::filesystem::path directory_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

void write_all_at(int fd, std::size_t offset, const void* data, std::size_t bytes,
                  const std::filesystem::path& file) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const auto n = ::pwrite(fd, from, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw system_error("{} cannot be written", file.string());
    from += n;
    offset += static_cast<std::size_t>(n);
    bytes -= static_cast<std::size_t>(n);
  }
}

}  // namespace

void append_output_to(const std::filesystem::path& file) {
  const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!fd) throw system_error("{} cannot be written", file.string());
  ::dup2(fd.get(), STDOUT_FILENO);
  ::dup2(fd.get(), STDERR_FILENO);
}

std::string temporary_suffix() {
  static std::atomic<unsigned> count = 0;
  return fmt::format(".tmp-{:08x}-{}-{}", std::random_device{}(), ::getpid(), count++);
}

AtomicFile::AtomicFile(std::filesystem::path target)
    : target_(std::move(target)), temporary_(target_.string() + temporary_suffix()) {
  fd_ = UniqueFd(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd_) throw system_error("{} cannot be written", target_.string());
  failpoint("file.created");
}

AtomicFile::~AtomicFile() {
  if (!fd_) return;
  fd_.reset();
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  write_at(end_, data, bytes);
  end_ += bytes;
}

void AtomicFile::write_at(std::size_t offset, const void* data, std::size_t bytes) {
  write_all_at(fd_.get(), offset, data, bytes, target_);
}

void AtomicFile::commit() {
  failpoint("file.written");
  if (::fsync(fd_.get()) != 0)
    throw system_error("{} cannot be written to the disk", target_.string());
  failpoint("file.synced");
  if (::rename(temporary_.c_str(), target_.c_str()) != 0)
    throw system_error("{} cannot be put in place", target_.string());
  fd_.reset();
  failpoint("file.renamed");
  sync_directory(directory_of(target_));
}

PartOfFile::PartOfFile(std::filesystem::path temporary, std::string_view start)
    : path_(std::move(temporary)), fd_(::open(path_.c_str(), O_RDWR | O_CLOEXEC)) {
  if (!fd_) throw system_error("{} cannot be written", path_.string());
  struct statfs system {};
  if (::fstatfs(fd_.get(), &system) != 0 || keeps_pages(static_cast<std::uint32_t>(system.f_type)))
    throw Error(fmt::format("{} is on a file system where hosts may not write side by side",
                            path_.string()));
  std::string found(start.size(), '\0');
  const auto read = ::pread(fd_.get(), found.data(), found.size(), 0);
  if (read != static_cast<ssize_t>(start.size()) || found != start)
    throw Error(fmt::format("{} is another file here", path_.string()));
}

void PartOfFile::write_at(std::size_t offset, const void* data, std::size_t bytes) {
  write_all_at(fd_.get(), offset, data, bytes, path_);
  failpoint("part.written");
}

void PartOfFile::sync() {
  if (::fsync(fd_.get()) != 0)
    throw system_error("{} cannot be written to the disk", path_.string());
}

std::optional<std::vector<std::filesystem::path>> entries_of(const std::filesystem::path& directory,
                                                             std::error_code& error) {
  std::vector<std::filesystem::path> entries;
  std::filesystem::directory_iterator at(directory, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error))
    entries.push_back(at->path());
  if (error) return std::nullopt;
  std::ranges::sort(entries);
  return entries;
}

std::error_code make_writable(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && ::access(folder.c_str(), W_OK | X_OK) != 0)
    error.assign(errno, std::system_category());
  return error;
}

void sync_directory(const std::filesystem::path& directory) {
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd) ::fsync(fd.get());
}

std::string read_file(const std::filesystem::path& file, std::size_t most) {
  const auto refuse = [&](const std::string& why) {
    throw InputError(fmt::format("{}: {}", file.string(), why));
  };
  // O_NONBLOCK: to open a pipe would wait for its other end.
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0)
    refuse(fmt::format("cannot be read: {}", std::generic_category().message(errno)));
  if (!S_ISREG(status.st_mode)) refuse("is no regular file");
  if (static_cast<std::uint64_t>(status.st_size) > most)
    refuse(fmt::format("has {} bytes, expected at most {}", status.st_size, most));
  std::string text;
  char part[std::size_t{64} << 10];
  for (;;) {
    const auto count = ::read(fd.get(), part, sizeof part);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      refuse(fmt::format("cannot be read: {}", std::generic_category().message(errno)));
    if (count == 0) return text;
    text.append(part, static_cast<std::size_t>(count));
    if (text.size() > most) refuse(fmt::format("has more than {} bytes", most));
  }
}

void write_file(const std::filesystem::path& file, std::string_view text) {
  AtomicFile output(file);
  output.write(text.data(), text.size());
  output.commit();
}

}  // namespace sullae
