#include "data/input_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "sullae/error.h"

namespace sullae::data {

std::filesystem::path find_file(const std::filesystem::path& file) {
  if (std::filesystem::exists(file)) return file;
  auto compressed = file;
  compressed += ".gz";
  if (std::filesystem::exists(compressed)) return compressed;
  throw InputError(fmt::format("{}: there is no such file, nor {}", file.string(),
                               compressed.filename().string()));
}

std::string read_whole(const std::filesystem::path& file) {
  errno = 0;
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> stream(::gzopen(file.c_str(), "rb"), ::gzclose);
  if (!stream)
    throw InputError(fmt::format("{}: cannot be opened: {}", file.string(), std::strerror(errno)));
  ::gzbuffer(stream.get(), 1U << 17);
  std::string content;
  constexpr unsigned kPiece = 1U << 20;
  for (;;) {
    const std::size_t old_size = content.size();
    content.resize(old_size + kPiece);
    const int n = ::gzread(stream.get(), content.data() + old_size, kPiece);
    content.resize(old_size + static_cast<std::size_t>(n > 0 ? n : 0));
    if (n > 0) continue;
    int code = Z_OK;
    const char* message = ::gzerror(stream.get(), &code);
    if (n == 0 && code == Z_OK) return content;
    if (code == Z_BUF_ERROR) {
      throw InputError(
          fmt::format("{}: is truncated: the compressed data ends early, after {} bytes of content",
                      file.string(), content.size()));
    }
    throw InputError(fmt::format("{}: cannot be read: {}", file.string(),
                                 code == Z_ERRNO ? std::strerror(errno) : message));
  }
}

}  // namespace sullae::data
