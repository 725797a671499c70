#include "online/lock.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "sullae/error.h"

namespace sullae::online {
namespace {

constexpr const char* kFile = ".online.lock";

// Of the open file and not of the process, so that closing another descriptor does not lose it.
struct flock whole_file() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

OnlineLock::OnlineLock(const std::filesystem::path& directory) {
  const auto file = directory / kFile;
  constexpr mode_t kMode = 0666;
  fd_.reset(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode));
  if (!fd_) throw Error(fmt::format("{}: {}", file.string(), std::strerror(errno)));
  auto lock = whole_file();
  if (::fcntl(fd_.get(), F_OFD_SETLK, &lock) != 0) {
    if (errno != EAGAIN && errno != EACCES)
      throw Error(fmt::format("{}: {}", file.string(), std::strerror(errno)));
    throw InputError(fmt::format("{}: another process learns for this model", directory.string()));
  }
}

bool OnlineLock::is_held(const std::filesystem::path& directory) {
  const UniqueFd fd(::open((directory / kFile).c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return false;
  auto lock = whole_file();
  return ::fcntl(fd.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace sullae::online
