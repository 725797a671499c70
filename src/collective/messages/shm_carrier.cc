#include "collective/messages/shm_carrier.h"

#include <fmt/format.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/copy.h"
#include "base/host.h"
#include "collective/messages/inbox.h"
#include "sullae/error.h"
#include "transport/shm/waiting.h"

namespace sullae::messages {
namespace {

// A round gives other threads their turn after so much.
constexpr int kPacketsARound = 16;
constexpr std::size_t kBytesARound = std::size_t{4} << 20;

class ShmCarrier final : public Carrier {
 public:
  ShmCarrier(Store& store, ShmCarrierOptions options)
      : store_(store), options_(std::move(options)), inbox_(Inbox::create()) {
    const auto handle = inbox_.handle();
    store_.set(key(options_.rank), {reinterpret_cast<const char*>(&handle), sizeof handle},
               deadline());
  }
  ~ShmCarrier() override { inbox_.leave(); }
  ShmCarrier(const ShmCarrier&) = delete;
  ShmCarrier& operator=(const ShmCarrier&) = delete;

  bool reaches(int peer) const override { return std::ranges::binary_search(options_.ranks, peer); }
  std::size_t most_payload() const override { return Inbox::kMostPayload; }

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
      const std::size_t bytes = std::min(bulk.bytes - bulk.moved, Inbox::kMostPayload);
      if (!post(bulk.peer, packet, {bulk.memory + bulk.moved, bytes})) break;
      bulk.moved += bytes;
    }
    return bulk.moved == bulk.bytes;
  }

  // Parts count themselves as they come.
  bool receive(Bulk& bulk) override {
    Peer& peer = peer_of(bulk.peer);
    if (!peer.readable) return bulk.moved == bulk.bytes;
    const std::size_t until = std::min(bulk.bytes, bulk.moved + kBytesARound);
    while (bulk.moved < until) {
      iovec local{bulk.memory + bulk.moved, until - bulk.moved};
      iovec remote{
          const_cast<std::byte*>(static_cast<const std::byte*>(bulk.source)) + bulk.moved,
          until - bulk.moved};
      const auto n = ::process_vm_readv(peer.inbox.owner_process(), &local, 1, &remote, 1, 0);
      if (n <= 0) {
        throw PeerError(bulk.peer, fmt::format("receive: the memory of rank {} (process {} on {}) "
                                               "cannot be read: {}",
                                               bulk.peer, peer.inbox.owner_process(), host_name(),
                                               n == 0 ? "nothing there" : std::strerror(errno)));
      }
      bulk.moved += static_cast<std::size_t>(n);
    }
    return bulk.moved == bulk.bytes;
  }

  std::optional<Gone> gone(int peer, bool) override {
    try {
      const Peer& asked = peer_of(peer);
      const bool left = asked.inbox.owner_has_left();
      if (!left && !shm::process_ended(asked.process)) return std::nullopt;
      return Gone{fmt::format("process {} on {}", asked.inbox.owner_process(), host_name()), !left};
    } catch (const PeerError& error) {
      return Gone{error.what()};
    }
  }

  // Nobody but this rank writes to its memory.
  void abandon() noexcept override {}

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

  static std::string key(int rank) { return fmt::format("messages/shm/{}", rank); }
  Deadline deadline() const { return {options_.rendezvous_timeout, "SULLAE_RENDEZVOUS_TIMEOUT"}; }

  Peer& peer_of(int rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (index < peers_.size() && peers_[index]) return *peers_[index];
    const std::string text = store_.get(key(rank), deadline());
    InboxHandle handle;
    if (text.size() != sizeof handle) throw Error("messages: the store holds the handle of something else than an inbox");
    copy_bytes(&handle, text.data(), sizeof handle);
    Peer peer{.inbox = open(rank, handle)};
    peer.process = shm::open_process(peer.inbox.owner_process());
    peer.readable = options_.may_fetch && peer.inbox.can_read_owner();
    if (index >= peers_.size()) peers_.resize(index + 1);
    peers_[index] = std::make_unique<Peer>(std::move(peer));
    return *peers_[index];
  }

  static Inbox open(int rank, const InboxHandle& handle) {
    try {
      return Inbox::open(handle);
    } catch (const Error&) {  // its memory went with it
      throw PeerError(rank, fmt::format("process {} on {}, before it was reached", handle.segment.pid,
                                        host_name()));
    }
  }

  Store& store_;
  ShmCarrierOptions options_;
  Inbox inbox_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null until it is looked for
};

}  // namespace

std::unique_ptr<Carrier> make_shm_carrier(Store& store, const ShmCarrierOptions& options) {
  return std::make_unique<ShmCarrier>(store, options);
}

}  // namespace sullae::messages
