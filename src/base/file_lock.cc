#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/system_error.h"

namespace sullae {
namespace {

struct flock whole_file() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

bool try_lock(int fd, const std::filesystem::path& file) {
  auto lock = whole_file();
  if (::fcntl(fd, F_OFD_SETLK, &lock) == 0) return true;
  if (errno != EAGAIN && errno != EACCES) throw system_error("{}", file.string());
  return false;
}

UniqueFd lock_file(const std::filesystem::path& file, mode_t mode, const Deadline& deadline) {
  UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, mode));
  if (!fd) throw system_error("{}", file.string());
  while (!try_lock(fd.get(), file)) {
    if (deadline.passed()) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return fd;
}

UniqueFd try_lock_folder(const std::filesystem::path& folder) {
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) throw system_error("{}", folder.string());
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return {};
  return fd;
}

void unlock(int fd) {
  auto lock = whole_file();
  lock.l_type = F_UNLCK;
  ::fcntl(fd, F_OFD_SETLK, &lock);
}

std::optional<bool> is_locked(const std::filesystem::path& file) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return errno == ENOENT ? std::optional(false) : std::nullopt;
  auto lock = whole_file();
  if (::fcntl(fd.get(), F_OFD_GETLK, &lock) != 0) return std::nullopt;
  return lock.l_type != F_UNLCK;
}

}  // namespace sullae
