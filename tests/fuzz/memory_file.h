// A file with the fuzzer's bytes, in memory, for readers that take paths.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "sullae/error.h"

namespace sullae::fuzz {

/// Those of another `which` are other files.
template <int which = 0>
std::filesystem::path memory_file(const std::uint8_t* data, std::size_t size) {
  static const int fd = ::memfd_create("fuzz", 0);
  if (fd < 0 || ::ftruncate(fd, 0) != 0 ||
      ::pwrite(fd, data, size, 0) != static_cast<ssize_t>(size))
    std::abort();
  return "/proc/self/fd/" + std::to_string(fd);
}

/// An Error is what readers throw for bad input; anything else is a finding.
template <class Call>
void expect_no_more_than_an_error(const Call& call) {
  try {
    call();
  } catch (const Error&) {
    return;
  }
}

}  // namespace sullae::fuzz
