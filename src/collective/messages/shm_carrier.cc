#include "collective/messages/shm_carrier.h"

#include <fmt/format.h>
#include <sys/uio.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <map>

#include "base/copy.h"
#include "base/deadline.h"
#include "base/host.h"
#include "collective/messages/inbox.h"
#include "sullae/error.h"
#include "transport/shm/waiting.h"

namespace sullae::messages {
namespace {

// A round gives other threads their turn after so much.
constexpr std::size_t kBytesARound = std::size_t{4} << 20;
// From here on two processors copy faster than one.
constexpr std::size_t kWorthHelp = 2 * SharedCopy::kPiece;
// A sender that has been stopped may take longer than any; then it writes no more until it goes on.
constexpr std::chrono::seconds kPieceLimit{1};

struct NotReached : PeerError {
  NotReached(int rank, int process)
      : NotReached(rank,
                   fmt::format("process {} on {}, before it was reached", process, host_name())) {}
  NotReached(int rank, const std::string& process)
      : PeerError(rank, fmt::format("rank {} ({}) left the world", rank, process)), who(process) {}
  std::string who;
};

class ShmCarrier final : public Carrier {
 public:
  ShmCarrier(Rendezvous& rendezvous, ShmCarrierOptions options)
      : rendezvous_(rendezvous), options_(std::move(options)), inbox_(Inbox::create()) {
    rendezvous_.put(options_.ranks, kKey, address());
  }
  ~ShmCarrier() override { inbox_.leave(); }
  ShmCarrier(const ShmCarrier&) = delete;
  ShmCarrier& operator=(const ShmCarrier&) = delete;

  bool reaches(int peer) const override { return std::ranges::binary_search(options_.ranks, peer); }

  std::string address() const override {
    const auto handle = inbox_.handle();
    return {reinterpret_cast<const char*>(&handle), sizeof handle};
  }
  void learn(int peer, const std::string& address) override { addresses_[peer] = address; }

  bool post(int peer, const Packet& packet, std::span<const std::byte> payload) override {
    return peer_of(peer).inbox.push(options_.rank, packet, payload);
  }

  bool poll(const Take& take) override {
    int taken = 0;
    while (taken < kPacketsARound && inbox_.pop(take)) ++taken;
    return taken > 0;
  }

  bool can_fetch(int peer) override { return peer_of(peer).readable; }

  bool send(Bulk& bulk) override {
    Packet packet{.kind = PacketKind::part, .id = bulk.id};
    for (int i = 0; i < kPacketsARound && bulk.moved < bulk.bytes; ++i) {
      packet.place = bulk.moved;
      const std::size_t bytes = std::min(bulk.bytes - bulk.moved, kMostPayload);
      if (!post(bulk.peer, packet, {bulk.memory + bulk.moved, bytes})) break;
      bulk.moved += bytes;
    }
    return bulk.moved == bulk.bytes;
  }

  bool receive(Bulk& bulk) override {
    const Peer& peer = peer_of(bulk.peer);
    if (!peer.readable) return bulk.moved == bulk.bytes;  // parts count themselves as they come
    if (const auto copying = std::static_pointer_cast<Copying>(bulk.state))
      return receive_together(bulk, *copying, peer);
    const std::size_t until = std::min(bulk.bytes, bulk.moved + kBytesARound);
    read(bulk, peer, bulk.moved, until - bulk.moved);
    bulk.moved = until;
    return bulk.moved == bulk.bytes;
  }

  std::optional<Packet> ask_for_help(Bulk& bulk) override {
    if (bulk.bytes < kWorthHelp) return std::nullopt;
    for (std::size_t i = 0; i < Inbox::kCopies; ++i) {
      SharedCopy& copy = inbox_.copy(i);
      const auto turn = copy.begin();
      if (!turn) continue;
      bulk.state = std::make_shared<Copying>(copy, *turn);
      return Packet{.kind = PacketKind::help,
                    .copy = static_cast<std::uint16_t>(i),
                    .tag = static_cast<std::int32_t>(*turn),
                    .id = bulk.id,
                    .place = reinterpret_cast<std::uint64_t>(bulk.memory)};
    }
    return std::nullopt;
  }

  bool help(const Bulk& bulk, const Packet& asked) override {
    const Inbox& inbox = peer_of(bulk.peer).inbox;
    SharedCopy& copy = inbox.copy(asked.copy % Inbox::kCopies);
    const auto piece = copy.claim(static_cast<std::uint32_t>(asked.tag), bulk.bytes);
    if (!piece) return true;
    auto* const place = std::bit_cast<std::byte*>(asked.place) + piece->offset;
    if (options_.may_help &&
        copy_all(::process_vm_writev, inbox, bulk.memory + piece->offset, place, piece->bytes)) {
      copy.wrote(piece->bytes);
    } else {
      copy.lost();
    }
    return false;
  }

  std::optional<Gone> gone(int peer, bool) override {
    try {
      const Peer& asked = peer_of(peer);
      const bool left = asked.inbox.owner_has_left();
      if (!left && !shm::process_ended(asked.process)) return std::nullopt;
      return Gone{fmt::format("process {} on {}", asked.inbox.owner_process(), host_name()), !left};
    } catch (const NotReached& error) {
      return Gone{error.who};
    }
  }

  void take_back(std::uint64_t offer) override { inbox_.take_back(offer); }
  bool was_taken_back(const Bulk& bulk) override {
    return peer_of(bulk.peer).inbox.was_taken_back(bulk.id);
  }

  // Parts that come late are dropped, and a helper is waited for when the copy ends.
  bool let_go(Bulk& bulk) override {
    bulk.state.reset();
    return true;
  }
  void abandon() noexcept override {}

  // Where every rank of this host can have a processor for itself.
  bool may_spin() override {
    if (!may_spin_) may_spin_ = count_processors() >= static_cast<int>(options_.ranks.size());
    return *may_spin_;
  }
  std::uint64_t prepare_sleep() override { return inbox_.bell(); }
  void sleep(std::uint64_t prepared, std::chrono::microseconds limit) override {
    inbox_.sleep(static_cast<std::uint32_t>(prepared), limit);
  }
  void wake() noexcept override { inbox_.wake(); }

 private:
  struct Peer {
    Inbox inbox;
    UniqueFd process;
    bool readable = false;
  };

  // The receiver's side of a copy that the sender helps with.
  struct Copying {
    SharedCopy& copy;
    std::uint32_t turn;
    std::size_t read = 0;  // here
    std::size_t pieces = 0;

    Copying(SharedCopy& shared, std::uint32_t its_turn) : copy(shared), turn(its_turn) {}
    // Memory that the sender has claimed a piece of is not let go before that has been written,
    // which takes it microseconds: it does nothing in between.
    ~Copying() {
      const std::size_t claimed = copy.end();
      const auto limit = Clock::now() + kPieceLimit;
      while (copy.pieces_written() + pieces < claimed) {
        if (Clock::now() >= limit) {
          copy.retire();
          return;
        }
        shm::pause_cpu();
      }
    }
    Copying(const Copying&) = delete;
    Copying& operator=(const Copying&) = delete;
  };

  bool receive_together(Bulk& bulk, Copying& copying, const Peer& peer) {
    if (copying.copy.has_lost()) {  // the sender may not write here: all of it is read
      bulk.state.reset();
      bulk.moved = 0;
      return false;
    }
    const std::size_t before = copying.read;
    while (copying.read - before < kBytesARound) {
      const auto piece = copying.copy.claim(copying.turn, bulk.bytes);
      if (!piece) break;
      ++copying.pieces;
      read(bulk, peer, piece->offset, piece->bytes);
      copying.read += piece->bytes;
    }
    bulk.moved = copying.read + copying.copy.written();
    return bulk.moved == bulk.bytes;
  }

  // Between `here` and `there`, which is in the process that owns `inbox`.
  template <class Call>
  static bool copy_all(const Call& call, const Inbox& inbox, std::byte* here, std::byte* there,
                       std::size_t bytes) {
    while (bytes > 0) {
      iovec local{here, bytes};
      iovec remote{there, bytes};
      const auto n = call(inbox.owner_process(), &local, 1, &remote, 1, 0);
      if (n <= 0) return false;
      here += n;
      there += n;
      bytes -= static_cast<std::size_t>(n);
    }
    return true;
  }

  static void read(const Bulk& bulk, const Peer& peer, std::size_t offset, std::size_t bytes) {
    auto* const source = const_cast<std::byte*>(static_cast<const std::byte*>(bulk.source));
    if (copy_all(::process_vm_readv, peer.inbox, bulk.memory + offset, source + offset, bytes))
      return;
    throw PeerError(bulk.peer, fmt::format("receive: the memory of rank {} (process {} on {}) "
                                           "cannot be read: {}",
                                           bulk.peer, peer.inbox.owner_process(), host_name(),
                                           std::strerror(errno)));
  }

  int count_processors() {
    cpu_set_t all = inbox_.owner_processors();
    for (const int rank : options_.ranks) {
      if (rank == options_.rank) continue;
      try {
        CPU_OR(&all, &all, &peer_of(rank).inbox.owner_processors());
      } catch (const Error&) {  // who is gone takes none
      }
    }
    return CPU_COUNT(&all);
  }

  static constexpr const char* kKey = "messages/shm";

  Peer& peer_of(int rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (index < peers_.size() && peers_[index]) return *peers_[index];
    const auto known = addresses_.find(rank);
    const std::string text =
        known != addresses_.end() ? known->second : rendezvous_.get(rank, kKey);
    InboxHandle handle;
    if (text.size() != sizeof handle)
      throw Error("messages: a rank put the handle of something else than an inbox");
    copy_bytes(&handle, text.data(), sizeof handle);
    Peer peer{.inbox = open(rank, handle)};
    peer.process = shm::open_process(peer.inbox.owner_process());
    if (!peer.process && errno == ESRCH) throw NotReached(rank, handle.segment.pid);
    peer.readable = options_.may_fetch && peer.inbox.can_read_owner();
    if (index >= peers_.size()) peers_.resize(index + 1);
    peers_[index] = std::make_unique<Peer>(std::move(peer));
    return *peers_[index];
  }

  static Inbox open(int rank, const InboxHandle& handle) {
    try {
      return Inbox::open(handle);
    } catch (const Error&) {  // its memory went with it
      throw NotReached(rank, handle.segment.pid);
    }
  }

  Rendezvous& rendezvous_;
  ShmCarrierOptions options_;
  Inbox inbox_;
  std::map<int, std::string> addresses_;  // that were told
  std::optional<bool> may_spin_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null until it is looked for
};

}  // namespace

std::unique_ptr<Carrier> make_shm_carrier(Rendezvous& rendezvous,
                                          const ShmCarrierOptions& options) {
  return std::make_unique<ShmCarrier>(rendezvous, options);
}

}  // namespace sullae::messages
