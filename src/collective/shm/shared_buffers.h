// The buffers that a host's ranks have allocated together, one part a rank, all parts mapped by
// all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/shm/shm_group.h"

namespace sullae::shm {

/// A place in this rank's part of a shared buffer. The same `buffer` number means the same
/// allocation on every rank.
struct SharedPlace {
  std::uint64_t buffer = 0;  ///< 0 means ordinary memory
  std::uint64_t offset = 0;
};

/// Any thread may call. Allocations through one channel must come in the same order on every rank.
/// Ranks may let go of a buffer at different times: each keeps the others' parts mapped until all
/// have.
class SharedBuffers {
 public:
  /// Collective: a segment of this rank, mapped by all others of `group`. It is freed when the last
  /// owner lets go of it. `channel` tells `group` from others that allocate here.
  std::shared_ptr<std::byte> allocate(Group& group, std::uint8_t channel, std::size_t bytes);

  /// Where `memory` lies, or buffer 0 where [memory, memory + bytes) is not within one buffer.
  SharedPlace find(const void* memory, std::size_t bytes) const;
  /// The address, in this process, of `place` in `member`'s part.
  std::byte* resolve(const SharedPlace& place, int member) const;

 private:
  struct Buffer {
    std::weak_ptr<std::byte> own;
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::vector<std::byte*> addresses;  // of every rank's part
    std::vector<Segment> others;

    bool let_go_by_all() const;
  };

  mutable std::mutex mutex_;                         // guards all below
  std::map<std::uint8_t, std::uint64_t> allocated_;  // by channel
  std::map<std::uint64_t, Buffer> buffers_;
};

}  // namespace sullae::shm
