#include "collective/shm/shared_buffers.h"

#include <algorithm>
#include <cstring>

#include "sullae/error.h"

namespace sullae::shm {

std::byte* SharedBuffers::allocate(std::size_t bytes) {
  Buffer buffer;
  buffer.parts.resize(static_cast<std::size_t>(group_.size()));
  auto& own = buffer.parts[static_cast<std::size_t>(group_.index())];
  own = Segment::create(std::max<std::size_t>(bytes, 64));
  const SegmentHandle handle = own.handle();
  const Signature signature{.operation = Operation::allocate, .count = bytes};
  group_.exchange(signature, std::as_bytes(std::span(&handle, 1)));
  for (int i = 0; i < group_.size(); ++i) {
    if (i == group_.index()) continue;
    SegmentHandle other;
    std::memcpy(&other, group_.payload(i), sizeof other);
    buffer.parts[static_cast<std::size_t>(i)] = Segment::open(other);
  }
  // Nobody may free its part before everybody has opened it.
  group_.step();
  std::byte* memory = own.data();
  buffers_.emplace(next_++, std::move(buffer));
  return memory;
}

void SharedBuffers::free(std::byte* memory) {
  const auto found = std::ranges::find_if(buffers_, [&](const auto& entry) {
    return entry.second.parts[static_cast<std::size_t>(group_.index())].data() == memory;
  });
  if (found == buffers_.end()) throw Error("free_shared: the memory was not allocated with allocate_shared");
  // Each process keeps its own mapping, so the others may still use theirs.
  buffers_.erase(found);
}

SharedPlace SharedBuffers::find(const void* memory, std::size_t bytes) const {
  const auto* address = static_cast<const std::byte*>(memory);
  for (const auto& [number, buffer] : buffers_) {
    const Segment& own = buffer.parts[static_cast<std::size_t>(group_.index())];
    if (address >= own.data() && address + bytes <= own.data() + own.size()) {
      return {number, static_cast<std::uint64_t>(address - own.data())};
    }
  }
  return {};
}

std::byte* SharedBuffers::resolve(const SharedPlace& place, int member) const {
  return buffers_.at(place.buffer).parts[static_cast<std::size_t>(member)].data() + place.offset;
}

}  // namespace sullae::shm
