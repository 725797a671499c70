#include "collective/messages/inbox.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <random>

#include "base/copy.h"
#include "sullae/error.h"
#include "transport/shm/waiting.h"

namespace sullae::messages {
namespace {

int membarrier(int command) { return static_cast<int>(::syscall(SYS_membarrier, command, 0U, 0)); }

// A full memory barrier on every processor that runs a thread of a process which has registered for
// it: of this process, and of all others that have an inbox.
void order_everybody() { membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED); }

bool can_order() {
  static const bool can = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0 &&
                          membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0;
  return can;
}

}  // namespace

Inbox::Inbox(shm::Segment segment)
    : segment_(std::move(segment)),
      memory_(std::launder(reinterpret_cast<Memory*>(segment_.data()))) {}

Inbox Inbox::create() {
  shm::Segment segment = shm::Segment::create(sizeof(Memory));
  // The payloads are left alone: their pages come when they are used.
  auto* const memory = new (segment.data()) Memory;
  for (Cell& cell : memory->cells) cell.turn.store(0);
  memory->tail.store(0);
  memory->head.store(0);
  memory->bell.store(0);
  memory->sleepers.store(0);
  memory->left.store(false);
  for (auto& offer : memory->taken_back) offer.store(0);
  memory->all_taken_back_up_to.store(0);
  memory->owner_orders = can_order();
  std::random_device random;
  memory->mark = static_cast<std::uint64_t>(random()) << 32 | random();
  CPU_ZERO(&memory->processors);
  ::sched_getaffinity(0, sizeof memory->processors, &memory->processors);
  memory->address = memory;
  memory->process.store(::getpid());
  Inbox inbox(std::move(segment));
  inbox.ordered_ = memory->owner_orders;
  return inbox;
}

Inbox Inbox::open(const InboxHandle& handle) {
  if (handle.segment.bytes != sizeof(Memory))
    throw Error("messages: a rank put the handle of something else than an inbox");
  Inbox inbox(shm::Segment::open(handle.segment));
  if (inbox.memory_->process.load() == 0 || inbox.memory_->mark != handle.mark)
    throw Error("messages: a rank has let go of its inbox");
  inbox.ordered_ = inbox.memory_->owner_orders && can_order();
  return inbox;
}

void Inbox::take_back(std::uint64_t offer) {
  for (auto& place : memory_->taken_back) {
    if (place.load() != 0) continue;
    place.store(offer);
    return;
  }
  auto& all = memory_->all_taken_back_up_to;
  all.store(std::max(all.load(), offer));
}

bool Inbox::was_taken_back(std::uint64_t offer) const {
  if (offer <= memory_->all_taken_back_up_to.load()) return true;
  // They are filled from the front: as a rule the first says that there is none.
  for (const auto& place : memory_->taken_back) {
    const std::uint64_t taken_back = place.load();
    if (taken_back == offer) return true;
    if (taken_back == 0) return false;
  }
  return false;
}

bool Inbox::push(int from, const Packet& packet, std::span<const std::byte> payload) {
  std::uint64_t ticket = memory_->tail.load(std::memory_order_relaxed);
  do {
    if (ticket - head_ >= kCells) {
      head_ = memory_->head.load(std::memory_order_acquire);
      if (ticket - head_ >= kCells) return false;
    }
  } while (!memory_->tail.compare_exchange_weak(ticket, ticket + 1, std::memory_order_relaxed));
  Cell& cell = memory_->cells[ticket % kCells];
  cell.from = from;
  cell.length = static_cast<std::uint32_t>(payload.size());
  cell.packet = packet;
  copy_bytes(
      payload.size() <= kInline ? cell.payload.data() : memory_->payloads[ticket % kCells].data(),
      payload.data(), payload.size());
  cell.turn.store(ticket + 1, std::memory_order_release);
  // The owner's threads count themselves among the sleepers before they look for this packet a last
  // time. Either they see it or they are seen here: both write `sleepers`; or, where they put all
  // processors in order, a sender need not wait until its packet has left its own.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const std::uint32_t sleepers =
      ordered_ ? memory_->sleepers.load(std::memory_order_relaxed) : memory_->sleepers.fetch_add(0);
  if (sleepers > 0) wake();
  return true;
}

void Inbox::wake() const {
  memory_->bell.fetch_add(1);
  shm::futex_wake_all(memory_->bell);
}

void Inbox::sleep(std::uint32_t bell, std::chrono::microseconds limit) const {
  memory_->sleepers.fetch_add(1);
  if (ordered_) order_everybody();
  const std::uint64_t head = memory_->head.load();
  if (memory_->cells[head % kCells].turn.load() != head + 1)
    shm::futex_wait(memory_->bell, bell, limit);
  memory_->sleepers.fetch_sub(1);
}

bool Inbox::can_read_owner() const {
  const std::int32_t process = owner_process();
  std::int32_t found = 0;
  iovec local{&found, sizeof found};
  iovec remote{const_cast<std::atomic<std::int32_t>*>(&memory_->address->process), sizeof found};
  return ::process_vm_readv(process, &local, 1, &remote, 1, 0) == sizeof found && found == process;
}

}  // namespace sullae::messages
