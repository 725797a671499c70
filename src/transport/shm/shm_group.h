// The ranks of one host, joined by shared memory: how they announce operations to each other and
// wait for each other.
//
// Each member owns a few cache lines that it alone writes and all others read:
//
//   cells[2]  One message an operation: a sequence number, the operation's Signature and 32 bytes
//             of payload. Operation n uses cell n mod 2. Two are enough: a member writes cell n
//             only after it has seen everybody's cell n-1, and a member that has written n-1 has
//             finished reading n-2.
//   phase     A counter for the steps within an operation, advanced and awaited in lock-step.
//   slots     Staging memory for data. What announcement a (a cell or a step) makes readable is in
//             slot a mod 2, by the same argument: it is written only after everybody has made
//             announcement a-1.
//
// A wait spins for a while, then yields, then sleeps on a futex in the awaited member's lines.
#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "transport/failure.h"
#include "transport/labels.h"
#include "transport/rendezvous.h"
#include "transport/shm/segment.h"
#include "transport/signature.h"

namespace sullae::shm {

inline constexpr std::size_t kCellPayload = 32;
inline constexpr std::size_t kSlotBytes = std::size_t{256} << 10;
/// Two slots for data on its way in, two for results on their way out.
inline constexpr std::size_t kSlots = 4;

struct alignas(64) Cell {
  std::atomic<std::uint64_t> sequence;
  Signature signature;
  std::array<std::byte, kCellPayload> payload;
};
static_assert(sizeof(Cell) == 64);

enum class MemberState : std::uint32_t { starting, running, left };

/// That a member goes no further. It has a place of its own: others may still read what the member
/// announced before.
struct MemberFailure {
  std::atomic<bool> happened;
  std::int32_t rank;  ///< of the world's, that cannot go on; -1: ranks disagree
  std::array<char, 1024> reason;
};

struct alignas(128) Member {
  std::array<Cell, 2> cells;
  alignas(64) std::atomic<std::uint64_t> phase;
  std::atomic<std::uint32_t> bell;     ///< futex word, advanced when there are waiters
  std::atomic<std::uint32_t> waiters;  ///< members asleep until this one announces something
  alignas(64) std::atomic<MemberState> state;
  std::int32_t pid;
  const Member* address;  ///< of this structure, in the member's own process
  cpu_set_t cpus;
  std::array<std::byte, kCellPayload> shared;
  MemberFailure failure;
};

struct GroupOptions {
  std::string name;                           ///< distinguishes this group's keys in the rendezvous
  std::vector<int> ranks;                     ///< world rank of each member, in order
  int index = 0;                              ///< this process's place among them
  WaitLimit timeout{};                        ///< of each wait within a collective
  std::chrono::milliseconds stall_warning{};  ///< after which a wait is reported; 0: never
  /// Ends every wait once it happens. Never null.
  std::shared_ptr<const Failure> failure = std::make_shared<Failure>();
};

/// One thread at a time may call. Every member must make the same calls in the same order.
class Group {
 public:
  Group(Rendezvous& rendezvous, GroupOptions options);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int index() const { return options_.index; }
  int size() const { return static_cast<int>(options_.ranks.size()); }
  int world_rank(int member) const { return options_.ranks[static_cast<std::size_t>(member)]; }

  /// Of the operations from here on; see Labels.
  void set_label(std::string_view name, std::uint64_t plan, unsigned turn) {
    labels_.set(name, plan, turn);
  }

  /// Announces an operation and waits until every member has announced its own. Throws
  /// MismatchError on every member if they are not the same.
  void exchange(Signature signature, std::span<const std::byte> payload = {});
  /// Announces that this member goes no further: whoever waits for what it has not announced has
  /// PeerError of `rank`, one of the world's that cannot go on, or where none is named
  /// MismatchError, with `reason`. The group is of no further use.
  void fail(std::string_view reason, std::optional<int> rank);
  /// What `member` announced in the last exchange. Valid until this member's next exchange.
  const std::byte* payload(int member) const {
    return members_[member].cells[sequence_ & 1].payload.data();
  }

  /// Announces the end of a step of the current operation, and waits for everybody's.
  void step();
  /// A step in which every member tells all others up to kCellPayload bytes; by member.
  std::vector<std::array<std::byte, kCellPayload>> share(std::span<const std::byte> payload);

  /// Whether every member may read every other's memory (process_vm_readv, which the kernel's Yama
  /// module may restrict).
  bool can_read_peers() const { return can_read_peers_; }
  /// Copies memory of another member, at an address of its own.
  void read_peer(int member, const void* from, void* into, std::size_t bytes) const;

  /// The number of the next announcement (exchange or step). What is written to the slot of that
  /// number before the announcement can be read by all after it.
  std::uint64_t next_announcement() const { return sequence_ + phase_ + 1; }
  /// Staging memory of `member` for that announcement: kSlotBytes, cache aligned.
  std::byte* slot(int member, std::uint64_t announcement) const {
    return slot_at(member, announcement & 1);
  }
  /// Memory of `member` for results, alternating with `turn`; see the pipelined allreduce.
  std::byte* result_slot(int member, std::uint64_t turn) const {
    return slot_at(member, 2 + (turn & 1));
  }

 private:
  std::byte* slot_at(int member, std::uint64_t index) const {
    return slots_ + (static_cast<std::size_t>(member) * kSlots + index) * kSlotBytes;
  }
  void attach(Rendezvous& rendezvous);
  void watch_members();
  void leave();
  void measure_cpus();
  void try_reading_peers();
  void announce(const Signature& signature, std::span<const std::byte> payload);
  void ring(Member& self);
  template <class Ready>
  void wait_for(int member, const Ready& ready);
  template <class Ready>
  void sleep_until(int member, const Ready& ready);
  std::string what() const;  // it does, for people
  [[noreturn]] void fail_gone(int member);
  [[noreturn]] static void fail_as(const MemberFailure& failure);

  GroupOptions options_;
  Labels labels_;
  Segment segment_;
  Member* members_ = nullptr;
  std::byte* slots_ = nullptr;
  std::vector<UniqueFd> pidfds_;
  bool can_read_peers_ = false;
  bool oversubscribed_ = false;  // the members have not a processor each
  std::uint64_t sequence_ = 0;
  std::uint64_t phase_ = 0;
  Operation operation_ = Operation::barrier;
};

}  // namespace sullae::shm
