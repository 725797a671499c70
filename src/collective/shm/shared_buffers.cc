#include "collective/shm/shared_buffers.h"

#include <algorithm>

#include "base/copy.h"

namespace sullae::shm {

std::shared_ptr<std::byte> SharedBuffers::allocate(Group& group, std::size_t bytes) {
  const Segment own = Segment::create(std::max<std::size_t>(bytes, 64));
  const SegmentHandle handle = own.handle();
  const Signature signature{.operation = Operation::allocate, .count = bytes};
  group.exchange(signature, std::as_bytes(std::span(&handle, 1)));

  std::shared_ptr<std::byte> memory = own.share();
  Buffer buffer{.own = memory, .begin = own.data(), .bytes = own.size()};
  for (int i = 0; i < group.size(); ++i) {
    SegmentHandle other;
    copy_bytes(&other, group.payload(i), sizeof other);
    if (i != group.index()) buffer.others.push_back(Segment::open(other));
    buffer.addresses.push_back(i == group.index() ? memory.get() : buffer.others.back().data());
  }
  // Nobody may let go of its part before everybody has opened it.
  group.step();
  const std::lock_guard lock(mutex_);
  std::erase_if(buffers_, [](const auto& entry) { return entry.second.own.expired(); });
  buffers_.emplace(next_++, std::move(buffer));
  return memory;
}

SharedPlace SharedBuffers::find(const void* memory, std::size_t bytes) const {
  const auto* address = static_cast<const std::byte*>(memory);
  const std::lock_guard lock(mutex_);
  for (const auto& [number, buffer] : buffers_) {
    const bool inside = address >= buffer.begin && address + bytes <= buffer.begin + buffer.bytes;
    // The addresses of a buffer that was let go may be anything's now.
    if (inside && !buffer.own.expired())
      return {number, static_cast<std::uint64_t>(address - buffer.begin)};
  }
  return {};
}

std::byte* SharedBuffers::resolve(const SharedPlace& place, int member) const {
  const std::lock_guard lock(mutex_);
  return buffers_.at(place.buffer).addresses[static_cast<std::size_t>(member)] + place.offset;
}

}  // namespace sullae::shm
