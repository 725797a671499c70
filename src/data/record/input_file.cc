#include "data/record/input_file.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "data/record/tfrecord_frame.h"
#include "storage/storage.h"
#include "sullae/error.h"

namespace sullae::data {
namespace {

// What the beginning of a compressed file says of the content's.
std::string inflate_start(const std::string& compressed, std::size_t bytes) {
  std::string content(bytes, '\0');
  z_stream stream{};
  constexpr int kGzip = 15 + 16;
  if (::inflateInit2(&stream, kGzip) != Z_OK) throw Error("zlib cannot be started");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));
  stream.avail_in = static_cast<uInt>(compressed.size());
  stream.next_out = reinterpret_cast<Bytef*>(content.data());
  stream.avail_out = static_cast<uInt>(content.size());
  ::inflate(&stream, Z_SYNC_FLUSH);
  content.resize(content.size() - stream.avail_out);
  ::inflateEnd(&stream);
  return content;
}

}  // namespace

bool is_gzip(std::string_view start) {
  return start.starts_with("\x1f\x8b\x08") && !begins_as_tfrecord(start);
}

std::filesystem::path find_file(const std::filesystem::path& file) {
  if (storage::exists(file)) return file;
  auto compressed = file;
  compressed += ".gz";
  if (storage::exists(compressed)) return compressed;
  throw InputError(fmt::format("{}: there is no such file, nor {}", file.string(),
                               compressed.filename().string()));
}

InputFile::InputFile(const std::filesystem::path& file)
    : name_(file.string()), stream_(nullptr, ::gzclose) {
  UniqueFd fd = storage::open_whole(file);
  std::array<char, kGzipStart> start{};
  const auto there = ::pread(fd.get(), start.data(), start.size(), 0);  // not of a pipe
  const std::string_view first(start.data(), static_cast<std::size_t>(std::max<ssize_t>(there, 0)));
  if (first.starts_with("\x1f\x8b") && !is_gzip(first)) {
    plain_ = std::move(fd);
    return;
  }
  stream_.reset(::gzdopen(fd.get(), "rb"));
  if (!stream_) throw InputError(fmt::format("{}: cannot be opened", name_));
  (void)fd.release();
  ::gzbuffer(stream_.get(), 1U << 17);
}

std::size_t InputFile::read(void* into, std::size_t bytes) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // of one gzread
  if (plain_) return read_plain(into, bytes);
  std::size_t done = 0;
  while (done < bytes) {
    const int n = ::gzread(stream_.get(), static_cast<char*>(into) + done,
                           static_cast<unsigned>(std::min(bytes - done, kMost)));
    if (n > 0) {
      done += static_cast<std::size_t>(n);
      position_ += static_cast<std::uint64_t>(n);
      continue;
    }
    int code = Z_OK;
    const char* message = ::gzerror(stream_.get(), &code);
    if (n == 0 && code == Z_OK) return done;
    if (code == Z_BUF_ERROR) {
      throw InputError(
          fmt::format("{}: is truncated: the compressed data ends early, after {} bytes of content",
                      name_, position_));
    }
    throw InputError(fmt::format("{}: cannot be read: {}", name_,
                                 code == Z_ERRNO ? std::strerror(errno) : message));
  }
  return done;
}

std::size_t InputFile::read_plain(void* into, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes) {
    const auto n = ::read(plain_.get(), static_cast<char*>(into) + done, bytes - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw InputError(fmt::format("{}: cannot be read: {}", name_, std::strerror(errno)));
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

std::string read_start(const std::filesystem::path& file, const storage::Status& status,
                       std::size_t bytes) {
  std::string start;
  if (storage::is_remote(file)) {
    start = storage::read_start(file, status, bytes);
    return is_gzip(start) ? inflate_start(start, bytes) : start;
  }
  start.resize(bytes);
  start.resize(InputFile(file).read(start.data(), start.size()));
  return start;
}

std::string read_whole(const std::filesystem::path& file) {
  InputFile input(file);
  std::string content;
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  for (;;) {
    const std::size_t old_size = content.size();
    content.resize(old_size + kPiece);
    const std::size_t n = input.read(content.data() + old_size, kPiece);
    content.resize(old_size + n);
    if (n < kPiece) return content;
  }
}

}  // namespace sullae::data
