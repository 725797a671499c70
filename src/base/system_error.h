// Messages for failed system calls.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "sullae/error.h"

namespace sullae {

/// An Error "<what>: <strerror(errno)>". Reads errno before anything else can change it.
template <class... Args>
Error system_error(fmt::format_string<Args...> format, Args&&... args) {
  const int code = errno;
  return Error(
      fmt::format("{}: {}", fmt::format(format, std::forward<Args>(args)...), std::strerror(code)));
}

}  // namespace sullae
