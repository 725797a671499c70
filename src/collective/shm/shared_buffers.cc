#include "collective/shm/shared_buffers.h"

#include <algorithm>
#include <atomic>

#include "base/copy.h"

namespace sullae::shm {
namespace {

constexpr std::size_t kLine = 64;

// A word behind each part that its owner sets when it lets go of it.
std::atomic<std::uint32_t>& let_go_of(const Segment& segment) {
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
  return *reinterpret_cast<std::atomic<std::uint32_t>*>(segment.data() + segment.size() - kLine);
}

std::shared_ptr<std::byte> owner_of(const Segment& segment) {
  return {segment.data(), [segment](std::byte*) {
            let_go_of(segment).store(1);
          }};
}

}  // namespace

bool SharedBuffers::Buffer::let_go_by_all() const {
  return own.expired() && std::ranges::all_of(others, [](const Segment& other) {
           return let_go_of(other).load() != 0;
         });
}

std::shared_ptr<std::byte> SharedBuffers::allocate(Group& group, std::uint8_t channel,
                                                   std::size_t bytes) {
  const Segment own = Segment::create((bytes + kLine - 1) / kLine * kLine + kLine);
  const SegmentHandle handle = own.handle();
  const Signature signature{.operation = Operation::allocate, .count = bytes};
  group.exchange(signature, std::as_bytes(std::span(&handle, 1)));

  std::shared_ptr<std::byte> memory = owner_of(own);
  Buffer buffer{.own = memory, .begin = own.data(), .bytes = own.size() - kLine};
  for (int i = 0; i < group.size(); ++i) {
    SegmentHandle other;
    copy_bytes(&other, group.payload(i), sizeof other);
    if (i != group.index()) buffer.others.push_back(Segment::open(other));
    buffer.addresses.push_back(i == group.index() ? memory.get() : buffer.others.back().data());
  }
  // Nobody may let go of its part before everybody has opened it. Who joins later has buffers of
  // its own.
  group.step();
  own.close_file();
  const std::lock_guard lock(mutex_);
  std::erase_if(buffers_, [](const auto& entry) { return entry.second.let_go_by_all(); });
  constexpr int kChannelShift = 56;
  const std::uint64_t number = std::uint64_t{channel} << kChannelShift | ++allocated_[channel];
  buffers_.emplace(number, std::move(buffer));
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
