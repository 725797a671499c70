#include "transport/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>

#include "base/fd.h"
#include "base/system_error.h"

namespace sullae::shm {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

class Segment::Mapping {
 public:
  Mapping(UniqueFd fd, std::size_t bytes) : fd_(std::move(fd)), bytes_(bytes) {
    void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    if (address == MAP_FAILED) throw system_error("shared memory: mapping {} bytes", bytes);
    data_ = static_cast<std::byte*>(address);
    // Huge pages only save time: a kernel that refuses them still works.
    if (bytes >= kHugePage) ::madvise(address, bytes, MADV_HUGEPAGE);
  }
  ~Mapping() { ::munmap(data_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }
  void close_file() { fd_.reset(); }

  // This process's own segments by address, so that `open` can share instead of mapping a second
  // time.
  struct Registry {
    std::mutex mutex;  // guards mappings
    std::map<std::uint64_t, std::weak_ptr<Mapping>> mappings;
  };
  static Registry& registry() {
    static Registry instance;
    return instance;
  }

 private:
  UniqueFd fd_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

namespace {

// Turns a lack of memory into an error here instead of a SIGBUS at the first touch. In pieces:
// older kernels undo all that a call has reserved when a signal comes, such as a profiler's.
void reserve(int fd, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t piece = std::min(kHugePage, bytes - at);
    if (::fallocate(fd, 0, static_cast<off_t>(at), static_cast<off_t>(piece)) == 0)
      at += piece;
    else if (errno != EINTR)
      throw system_error("shared memory: {} bytes are not to be had", bytes);
  }
}

}  // namespace

Segment Segment::create(std::size_t bytes) {
  bytes = bytes < kHugePage ? bytes : (bytes + kHugePage - 1) / kHugePage * kHugePage;
  UniqueFd fd(::memfd_create("sullae", MFD_CLOEXEC));
  if (!fd) throw system_error("shared memory: memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    throw system_error("shared memory: sizing a segment of {} bytes", bytes);
  }
  auto mapping = std::make_shared<Mapping>(std::move(fd), bytes);
  reserve(mapping->fd(), bytes);
  auto& registry = Mapping::registry();
  const std::lock_guard lock(registry.mutex);
  std::erase_if(registry.mappings, [](const auto& entry) { return entry.second.expired(); });
  registry.mappings[reinterpret_cast<std::uint64_t>(mapping->data())] = mapping;
  return Segment(std::move(mapping));
}

Segment Segment::open(const SegmentHandle& handle) {
  if (handle.pid == ::getpid()) {
    auto& registry = Mapping::registry();
    const std::lock_guard lock(registry.mutex);
    auto mapping = registry.mappings[handle.address].lock();
    if (mapping == nullptr)
      throw Error("shared memory: a segment of this process was freed before it was opened");
    return Segment(std::move(mapping));
  }
  const auto path = fmt::format("/proc/{}/fd/{}", handle.pid, handle.fd);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd)
    throw system_error("shared memory: the segment of process {} cannot be opened", handle.pid);
  // The number may mean another file by now.
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || static_cast<std::uint64_t>(status.st_size) != handle.bytes)
    throw Error(fmt::format("shared memory: process {} has let go of its segment", handle.pid));
  Segment segment(std::make_shared<Mapping>(std::move(fd), handle.bytes));
  // Others open it through its maker.
  segment.close_file();
  return segment;
}

std::byte* Segment::data() const { return mapping_ ? mapping_->data() : nullptr; }
std::size_t Segment::size() const { return mapping_ ? mapping_->bytes() : 0; }

SegmentHandle Segment::handle() const {
  return {::getpid(), mapping_->fd(), reinterpret_cast<std::uint64_t>(mapping_->data()),
          mapping_->bytes()};
}

void Segment::close_file() const { mapping_->close_file(); }

}  // namespace sullae::shm
