// Where the ranks of a host leave packets for one of them: a ring of cells in shared memory that
// many fill and one empties (after D. Vyukov's bounded queue, with the free cells counted instead
// of marked: a sender that knows of room writes its cell without having read anything of the
// receiver's).
#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collective/messages/packet.h"
#include "collective/messages/shared_copy.h"
#include "transport/shm/segment.h"

namespace sullae::messages {

/// Enough for another process of this host to find one. Plain data: it travels by the rendezvous.
struct InboxHandle {
  shm::SegmentHandle segment;
  std::uint64_t mark =
      0;  ///< no other inbox has it: the segment's number may come to mean another one's
};

/// A view of one rank's ring: its owner's, or a sender's. One thread at a time may call, but for
/// sleep(). Any number of views may push at the same time.
class Inbox {
 public:
  Inbox() = default;
  /// Makes an empty one of this process.
  static Inbox create();
  /// Another rank's. Throws Error where it is gone.
  static Inbox open(const InboxHandle& handle);
  InboxHandle handle() const { return {segment_.handle(), memory_->mark}; }

  /// Copies both in; false when there is no room now.
  bool push(int from, const Packet& packet, std::span<const std::byte> payload);

  /// The owner: gives the next packet to `take(from, packet, payload)`, whose payload is valid
  /// during the call. False when there is none.
  template <class Take>
  bool pop(const Take& take) {
    const Cell& cell = memory_->cells[head_ % kCells];
    if (cell.turn.load(std::memory_order_acquire) != head_ + 1) return false;
    const std::byte* const payload =
        cell.length <= kInline ? cell.payload.data() : memory_->payloads[head_ % kCells].data();
    take(static_cast<int>(cell.from), cell.packet, std::span(payload, cell.length));
    memory_->head.store(++head_, std::memory_order_release);
    return true;
  }

  /// The owner: sleeps until a packet comes or wake() is called after `bell` was read, or for
  /// `limit`. Read the bell before looking for packets. Any number of threads may sleep.
  std::uint32_t bell() const { return memory_->bell.load(); }
  void sleep(std::uint32_t bell, std::chrono::microseconds limit) const;
  void wake() const;

  /// Either side.
  static constexpr std::size_t kCopies = 8;
  SharedCopy& copy(std::size_t index) const { return memory_->copies[index]; }

  /// The owner says that it takes no more.
  void leave() { memory_->left.store(true); }
  bool owner_has_left() const { return memory_->left.load(); }
  /// The owner: what it offers as `offer` is to be read no more.
  void take_back(std::uint64_t offer);
  bool was_taken_back(std::uint64_t offer) const;
  const cpu_set_t& owner_processors() const { return memory_->processors; }
  int owner_process() const { return memory_->process.load(); }
  /// Whether a thread that sees this view may read the memory of the owner's process.
  bool can_read_owner() const;

 private:
  static constexpr std::uint64_t kCells = 64;
  static constexpr std::size_t kInline = 72;

  // A packet with 8 bytes of payload fills one cache line.
  struct alignas(128) Cell {
    std::atomic<std::uint64_t> turn;
    std::int32_t from;
    std::uint32_t length;
    Packet packet;
    std::array<std::byte, kInline> payload;
  };
  static_assert(sizeof(Cell) == 128);

  // Of an owner that has taken back more than these, because others stand still, all that it has
  // offered so far is.
  static constexpr std::size_t kTakenBack = 64;

  struct Memory {
    alignas(128) std::atomic<std::uint64_t> tail;  // cells that senders have claimed
    alignas(128) std::atomic<std::uint64_t> head;  // cells that the owner has emptied
    alignas(128) std::atomic<std::uint32_t> bell;  // futex word, advanced when somebody sleeps
    std::atomic<std::uint32_t> sleepers;
    std::atomic<bool> left;
    bool owner_orders;  // its threads put all processors in order before they sleep (membarrier)
    std::uint64_t mark;
    cpu_set_t processors;               // that the owner may run on
    const Memory* address;              // of this structure, in the owner's process
    std::atomic<std::int32_t> process;  // written last
    alignas(
        128) std::array<std::atomic<std::uint64_t>, kTakenBack> taken_back;  // numbers of offers
    std::atomic<std::uint64_t> all_taken_back_up_to;
    alignas(128) std::array<SharedCopy, kCopies> copies;
    std::array<Cell, kCells> cells;
    alignas(128) std::array<std::array<std::byte, kMostPayload>, kCells> payloads;
  };

  explicit Inbox(shm::Segment segment);

  shm::Segment segment_;
  Memory* memory_ = nullptr;
  bool ordered_ = false;
  std::uint64_t head_ = 0;  // the owner's; for senders, the last that was read
};

}  // namespace sullae::messages
