#include "transport/shm/shm_group.h"

#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/copy.h"
#include "base/descriptors.h"
#include "base/host.h"
#include "base/own_thread.h"
#include "base/stall_warning.h"
#include "base/system_error.h"
#include "transport/shm/waiting.h"

namespace sullae::shm {
namespace {

constexpr int kShmForegroundSpins = 2000;
constexpr int kShmBackgroundSpins = 100;
constexpr int kYields = 200;

std::size_t slots_offset(int members) {
  return (static_cast<std::size_t>(members) * sizeof(Member) + 4095) / 4096 * 4096;
}

}  // namespace

Group::Group(Rendezvous& rendezvous, GroupOptions options) : options_(std::move(options)) {
  attach(rendezvous);
  Member& self = members_[index()];
  self.pid = ::getpid();
  self.address = &self;
  CPU_ZERO(&self.cpus);
  ::sched_getaffinity(0, sizeof self.cpus, &self.cpus);
  self.state.store(MemberState::running);
  rendezvous.fence(options_.ranks, "shm/" + options_.name + "/running");
  watch_members();
  measure_cpus();
  try_reading_peers();
}

Group::~Group() { leave(); }

void Group::leave() {
  Member& self = members_[index()];
  self.state.store(MemberState::left);
  ring(self);
}

// The end of a member without a descriptor would never be noticed.
void Group::watch_members() {
  // Of a member one here, and one in each of the other channels that its world has.
  constexpr std::size_t kOthers = 512;
  allow_descriptors(kOthers + 8 * static_cast<std::size_t>(size()));
  for (int i = 0; i < size(); ++i) {
    UniqueFd process = open_process(members_[i].pid);
    const int error = process ? 0 : errno;
    // Not in every kernel, nor in every container: then timeouts end waits for who has died.
    if (error == 0 || error == ENOSYS || error == EPERM) {
      pidfds_.push_back(std::move(process));
      continue;
    }
    leave();  // for the others, who would wait for this one
    // It said that it runs, and has died and been reaped since.
    if (error == ESRCH) fail_gone(i);
    errno = error;
    throw system_error("shared memory: rank {} (process {}) cannot be watched", world_rank(i),
                       members_[i].pid);
  }
}

void Group::attach(Rendezvous& rendezvous) {
  const auto key = "shm/" + options_.name + "/segment";
  const std::size_t bytes =
      slots_offset(size()) + static_cast<std::size_t>(size()) * kSlots * kSlotBytes;
  if (index() == 0) {
    segment_ = Segment::create(bytes);
    for (int i = 0; i < size(); ++i)
      new (segment_.data() + static_cast<std::size_t>(i) * sizeof(Member)) Member{};
    const auto handle = segment_.handle();
    rendezvous.put(options_.ranks, key, {reinterpret_cast<const char*>(&handle), sizeof handle});
  } else {
    const auto text = rendezvous.get(world_rank(0), key);
    SegmentHandle handle;
    if (text.size() != sizeof handle)
      throw Error(fmt::format("shared memory: rank {} gave a bad segment handle", world_rank(0)));
    copy_bytes(&handle, text.data(), sizeof handle);
    if (handle.bytes < bytes)
      throw Error("shared memory: the ranks of this host disagree about its size");
    segment_ = Segment::open(handle);
  }
  members_ = std::launder(reinterpret_cast<Member*>(segment_.data()));
  slots_ = segment_.data() + slots_offset(size());
}

// Spinning pays only where every member can have a processor for itself.
void Group::measure_cpus() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int i = 0; i < size(); ++i) CPU_OR(&all, &all, &members_[i].cpus);
  oversubscribed_ = CPU_COUNT(&all) < size();
}

void Group::try_reading_peers() {
  bool all = true;
  for (int i = 0; i < size(); ++i) {
    std::int32_t pid = 0;
    iovec local{&pid, sizeof pid};
    iovec remote{const_cast<std::int32_t*>(&members_[i].address->pid), sizeof pid};
    const auto n = ::process_vm_readv(members_[i].pid, &local, 1, &remote, 1, 0);
    all = all && n == sizeof pid && pid == members_[i].pid;
  }
  const std::byte mine{all ? std::uint8_t{1} : std::uint8_t{0}};
  can_read_peers_ = std::ranges::all_of(
      share({&mine, 1}), [](const auto& shared) { return shared[0] == std::byte{1}; });
}

std::vector<std::array<std::byte, kCellPayload>> Group::share(std::span<const std::byte> payload) {
  copy_bytes(members_[index()].shared.data(), payload.data(),
             std::min(payload.size(), kCellPayload));
  step();
  std::vector<std::array<std::byte, kCellPayload>> all;
  for (int i = 0; i < size(); ++i) all.push_back(members_[i].shared);
  // Nobody may tell the next before everybody has read this.
  step();
  return all;
}

void Group::read_peer(int member, const void* from, void* into, std::size_t bytes) const {
  auto* to = static_cast<std::byte*>(into);
  const auto* source = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    iovec local{to, bytes};
    iovec remote{const_cast<std::byte*>(source), bytes};
    const auto n = ::process_vm_readv(members_[member].pid, &local, 1, &remote, 1, 0);
    if (n <= 0) {
      throw PeerError(
          world_rank(member),
          fmt::format("{}: the memory of rank {} (process {}) cannot be read: {}", name(operation_),
                      world_rank(member), members_[member].pid, std::strerror(errno)));
    }
    to += n;
    source += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void Group::announce(const Signature& signature, std::span<const std::byte> payload) {
  const std::uint64_t sequence = ++sequence_;
  Member& self = members_[index()];
  Cell& cell = self.cells[sequence & 1];
  cell.signature = signature;
  copy_bytes(cell.payload.data(), payload.data(), std::min(payload.size(), kCellPayload));
  cell.sequence.store(sequence);
  ring(self);
}

void Group::fail(std::string_view reason, std::optional<int> rank) {
  Member& self = members_[index()];
  MemberFailure& failure = self.failure;
  if (failure.happened.load()) return;
  failure.rank = rank.value_or(-1);
  copy_bytes(failure.reason.data(), reason.data(),
             std::min(reason.size(), failure.reason.size() - 1));
  failure.happened.store(true);
  ring(self);
}

void Group::fail_as(const MemberFailure& failure) {
  const std::string reason = failure.reason.data();  // which ends with a 0
  if (failure.rank < 0) throw MismatchError(reason);
  throw PeerError(failure.rank, reason);
}

void Group::exchange(Signature signature, std::span<const std::byte> payload) {
  signature = labels_.stamp(signature);
  operation_ = signature.operation;
  announce(signature, payload);
  const std::uint64_t sequence = sequence_;
  for (int i = 0; i < size(); ++i) {
    const Cell& other = members_[i].cells[sequence & 1];
    wait_for(i, [&] { return other.sequence.load() >= sequence; });
  }
  for (int i = 0; i < size(); ++i) {
    const Signature& other = members_[i].cells[sequence & 1].signature;
    if (other != signature) {
      throw labels_.mismatch(world_rank(index()), signature, world_rank(i), other);
    }
  }
}

void Group::step() {
  Member& self = members_[index()];
  const std::uint64_t phase = ++phase_;
  self.phase.store(phase);
  ring(self);
  for (int i = 0; i < size(); ++i) {
    wait_for(i, [&] { return members_[i].phase.load() >= phase; });
  }
}

// The sequentially consistent store before and load here, against the waiter's increment and load,
// make sure that either this member sees the waiter or the waiter sees the announcement.
void Group::ring(Member& self) {
  if (self.waiters.load() == 0) return;
  self.bell.fetch_add(1);
  futex_wake_all(self.bell);
}

template <class Ready>
void Group::wait_for(int member, const Ready& ready) {
  if (ready()) return;
  const int spins = oversubscribed_ ? 0 : in_own_thread ? kShmBackgroundSpins : kShmForegroundSpins;
  for (int i = 0; i < spins; ++i) {
    if (ready()) return;
    pause_cpu();
  }
  for (int i = 0; i < (in_own_thread ? 0 : kYields); ++i) {
    if (ready()) return;
    ::sched_yield();
  }
  sleep_until(member, ready);
}

template <class Ready>
void Group::sleep_until(int member, const Ready& ready) {
  const Deadline deadline(options_.timeout);
  StallWarning warning(options_.stall_warning);
  Member& awaited = members_[member];
  struct Registration {
    std::atomic<std::uint32_t>& waiters;
    explicit Registration(std::atomic<std::uint32_t>& counter) : waiters(counter) {
      waiters.fetch_add(1);
    }
    ~Registration() { waiters.fetch_sub(1); }
  } const registration(awaited.waiters);
  for (;;) {
    const std::uint32_t bell = awaited.bell.load();
    if (ready()) return;
    if (awaited.failure.happened.load()) {
      // It may have announced just before.
      if (ready()) return;
      fail_as(awaited.failure);
    }
    if (awaited.state.load() == MemberState::left ||
        process_ended(pidfds_[static_cast<std::size_t>(member)])) {
      // It may have announced just before it went.
      if (ready()) return;
      fail_gone(member);
    }
    options_.failure->check();
    if (deadline.passed()) {
      throw TimeoutError(fmt::format("{}: rank {} waited for rank {}, which did not join {}",
                                     what(), world_rank(index()), world_rank(member),
                                     deadline.describe()));
    }
    warning.check([this] { return what(); }, world_rank(index()), world_rank(member));
    futex_wait(awaited.bell, bell, std::min(kLivenessPeriod, deadline.remaining()));
  }
}

std::string Group::what() const { return std::string(name(operation_)) + labels_.purpose(); }

void Group::fail_gone(int member) {
  const Member& gone = members_[member];
  const int rank = world_rank(member);
  const bool has_left = gone.state.load() == MemberState::left;
  throw PeerError(
      rank,
      fmt::format("{}: rank {} (process {} on {}) {} while rank {} waited for it{}", what(), rank,
                  gone.pid, host_name(), has_left ? "left the world" : "died", world_rank(index()),
                  has_left ? ": its program has ended, or has called shutdown(); a rank that runs "
                             "out of data earlier than others calls join()"
                           : ""));
}

}  // namespace sullae::shm
