#include "storage/spool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "sullae/error.h"

namespace sullae::storage {
namespace {

[[noreturn]] void fail(const char* what) {
  const int error = errno;
  throw Error(fmt::format("{}: {}: {} (TMPDIR says where)",
                          std::filesystem::temp_directory_path().string(), what,
                          std::strerror(error)));
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

}  // namespace sullae::storage
