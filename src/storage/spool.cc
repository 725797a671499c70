#include "storage/spool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/descriptors.h"
#include "sullae/error.h"

namespace sullae::storage {
namespace {

[[noreturn]] void fail(const char* what) {
  const int error = errno;
  throw Error(fmt::format("{}: {}: {} (TMPDIR says where){}",
                          std::filesystem::temp_directory_path().string(), what,
                          std::strerror(error), descriptors_hint(error)));
}

}  // namespace

UniqueFd make_spool() {
  std::string name = (std::filesystem::temp_directory_path() / "sullae-XXXXXX").string();
  UniqueFd fd(::mkostemp(name.data(), O_CLOEXEC));
  if (fd.get() < 0) fail("a temporary file cannot be made");
  ::unlink(name.c_str());
  return fd;
}

void write_spool(int fd, std::uint64_t offset, const void* data, std::size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::pwrite(fd, from, bytes, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("a temporary file cannot be written");
    from += count;
    offset += static_cast<std::uint64_t>(count);
    bytes -= static_cast<std::size_t>(count);
  }
}

void read_spool(int fd, std::uint64_t offset, void* into, std::size_t bytes) {
  auto* place = static_cast<char*>(into);
  while (bytes > 0) {
    const ssize_t count = ::pread(fd, place, bytes, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("a temporary file cannot be read");
    place += count;
    offset += static_cast<std::uint64_t>(count);
    bytes -= static_cast<std::size_t>(count);
  }
}

void fetch_to_spool(int fd, Store& store, const std::string& path, const std::string& version,
                    std::uint64_t offset, std::uint64_t bytes) {
  store.read(path, version, offset, bytes, [&](std::string_view piece) {
    write_spool(fd, offset, piece.data(), piece.size());
    offset += piece.size();
  });
}

}  // namespace sullae::storage
