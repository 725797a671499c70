#include "data/record/byte_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/descriptors.h"
#include "base/fd.h"
#include "data/record/input_file.h"
#include "storage/storage.h"
#include "sullae/error.h"

namespace sullae::data {
namespace {

class FileOnDisk final : public ByteFile {
 public:
  FileOnDisk(std::string name, std::uint64_t size, UniqueFd fd)
      : ByteFile(std::move(name), size), fd_(std::move(fd)) {}

  void read(std::uint64_t offset, void* into, std::size_t bytes) const override {
    auto* place = static_cast<char*>(into);
    while (bytes > 0) {
      const ssize_t n = ::pread(fd_.get(), place, bytes, static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        throw InputError(
            fmt::format("{}: cannot be read at byte {}: {}", name(), offset, std::strerror(errno)));
      }
      if (n == 0) {
        throw InputError(fmt::format("{}: is truncated: it ends at byte {}, {} more were expected",
                                     name(), offset, bytes));
      }
      place += n;
      offset += static_cast<std::uint64_t>(n);
      bytes -= static_cast<std::size_t>(n);
    }
  }

 private:
  UniqueFd fd_;
};

class FileInMemory final : public ByteFile {
 public:
  FileInMemory(std::string name, std::string content)
      : ByteFile(std::move(name), content.size()), content_(std::move(content)) {}

  void read(std::uint64_t offset, void* into, std::size_t bytes) const override {
    if (offset > content_.size() || bytes > content_.size() - offset) {
      throw InputError(fmt::format("{}: is truncated: it ends at byte {}, expected {} from byte {}",
                                   name(), content_.size(), bytes, offset));
    }
    std::memcpy(into, content_.data() + offset, bytes);
  }

 private:
  std::string content_;
};

class FileInStore final : public ByteFile {
 public:
  FileInStore(std::string name, std::unique_ptr<storage::Reader> reader)
      : ByteFile(std::move(name), reader->size()), reader_(std::move(reader)) {}
  void read(std::uint64_t offset, void* into, std::size_t bytes) const override {
    reader_->read(offset, into, bytes);
  }

 private:
  std::unique_ptr<storage::Reader> reader_;
};

std::shared_ptr<const ByteFile> open_in_place(const std::filesystem::path& file) {
  if (storage::is_remote(file)) {
    const auto status = storage::status(file);
    if (!status || status->is_folder)
      throw InputError(fmt::format("{}: is not a file", file.string()));
    return std::make_shared<FileInStore>(file.string(), storage::open_remote(file, *status));
  }
  UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (fd.get() < 0 || ::fstat(fd.get(), &status) != 0) {
    const int error = errno;
    throw InputError(fmt::format("{}: cannot be opened: {}{}", file.string(), std::strerror(error),
                                 descriptors_hint(error)));
  }
  if (!S_ISREG(status.st_mode)) throw InputError(fmt::format("{}: is not a file", file.string()));
  return std::make_shared<FileOnDisk>(file.string(), static_cast<std::uint64_t>(status.st_size),
                                      std::move(fd));
}

}  // namespace

std::string ByteFile::read(std::uint64_t offset, std::size_t bytes) const {
  std::string content(bytes, '\0');
  read(offset, content.data(), bytes);
  return content;
}

std::string ByteFile::first(std::size_t bytes) const {
  return read(0, static_cast<std::size_t>(std::min<std::uint64_t>(bytes, size())));
}

std::shared_ptr<const ByteFile> ByteFile::open(const std::filesystem::path& file) {
  auto opened = open_in_place(file);
  if (!is_gzip(opened->first(kGzipStart))) return opened;
  return std::make_shared<FileInMemory>(file.string(), read_whole(file));
}

}  // namespace sullae::data
