// Memory that several processes of one host map.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace sullae::shm {

/// Enough for another process of this host to map a segment. Plain data: it travels in shared
/// memory and in the store.
struct SegmentHandle {
  std::int32_t pid = 0;
  std::int32_t fd = -1;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

/// An anonymous memory file (memfd_create): it has no name in /dev/shm, so none can be left behind,
/// it is not bounded by the size of a container's /dev/shm, and the kernel frees it with the last
/// process that maps it.
class Segment {
 public:
  Segment() = default;
  /// Makes a segment of zeros, page aligned. Throws Error when memory is short.
  static Segment create(std::size_t bytes);
  /// Maps the segment of another process through /proc. A segment of this very process is shared
  /// where it is, so that ranks that are threads use the same addresses and ThreadSanitizer sees
  /// what they do.
  static Segment open(const SegmentHandle& handle);

  std::byte* data() const;
  std::size_t size() const;
  /// For others to open(). Only of a segment that this process has made.
  SegmentHandle handle() const;
  /// Once everybody has opened it: the memory stays, the descriptor, of which a process may have
  /// few, goes.
  void close_file() const;

 private:
  class Mapping;
  explicit Segment(std::shared_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}

  std::shared_ptr<Mapping> mapping_;
};

}  // namespace sullae::shm
