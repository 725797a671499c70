#include "dashboard/log_piece.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/fd.h"
#include "base/system_error.h"

namespace sullae::dashboard {
namespace {

bool is_within(const std::filesystem::path& folder, const std::filesystem::path& file) {
  std::error_code error;
  const auto place = std::filesystem::canonical(file, error);
  const auto limit = std::filesystem::canonical(folder, error);
  return !error && std::ranges::mismatch(limit, place).in1 == limit.end();
}

}  // namespace

nlohmann::json log_piece(const std::filesystem::path& folder, const std::filesystem::path& file,
                         std::optional<std::int64_t> from) {
  constexpr std::int64_t kMost = std::int64_t{256} << 10;
  UniqueFd fd;
  if (is_within(folder, file))
    fd.reset(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat status = {};
  if (fd && ::fstat(fd.get(), &status) != 0) throw system_error("{}", file.string());
  const std::int64_t size = S_ISREG(status.st_mode) ? status.st_size : 0;
  // Shorter than it was: another file.
  const bool is_end = !from || *from > size;
  std::int64_t begin = is_end ? std::max<std::int64_t>(0, size - kMost) : *from;
  std::string text(static_cast<std::size_t>(std::min(kMost, size - begin)), '\0');
  if (!text.empty()) {
    const auto n = ::pread(fd.get(), text.data(), text.size(), begin);
    if (n < 0) throw system_error("{}", file.string());
    text.resize(static_cast<std::size_t>(n));
  }
  if (is_end && begin > 0) {
    const auto line = text.find('\n') + 1;  // 0: one line without an end
    begin += static_cast<std::int64_t>(line);
    text.erase(0, line);
  }
  // A letter of several bytes, or a line, may be half there.
  if (const auto last = text.rfind('\n'); last != std::string::npos) text.resize(last + 1);
  const auto end = begin + static_cast<std::int64_t>(text.size());
  return {{"begin", begin}, {"end", end}, {"size", size}, {"text", std::move(text)}};
}

}  // namespace sullae::dashboard
