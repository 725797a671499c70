#include "collective/messages/transport_carrier.h"

#include <algorithm>
#include <list>

#include "base/copy.h"

namespace sullae::messages {
namespace {

// More packets than these wait for those before them.
constexpr std::size_t kPacketsUnderWay = 256;
constexpr std::chrono::milliseconds kCloseLimit{1000};

constexpr std::uint64_t kPacketTag = make_tag(0, 0);
constexpr std::uint64_t bulk_tag(std::uint64_t id) { return make_tag(id, 1); }

// A packet and what it brings along, as they travel.
using Bytes = std::vector<std::byte>;

Bytes join(const Packet& packet, std::span<const std::byte> payload) {
  Bytes bytes(sizeof packet + payload.size());
  copy_bytes(bytes.data(), &packet, sizeof packet);
  copy_bytes(bytes.data() + sizeof packet, payload.data(), payload.size());
  return bytes;
}

class TransportCarrier final : public Carrier {
 public:
  TransportCarrier(std::unique_ptr<Transport> transport, std::vector<int> local)
      : transport_(std::move(transport)), local_(std::move(local)) {}
  ~TransportCarrier() override {
    // What was posted last is still to go out.
    const auto limit = Clock::now() + kCloseLimit;
    while (end_outgoing(), !outgoing_.empty() && Clock::now() < limit) {
    }
    abandon();
  }
  TransportCarrier(const TransportCarrier&) = delete;
  TransportCarrier& operator=(const TransportCarrier&) = delete;

  bool reaches(int peer) const override { return !std::ranges::binary_search(local_, peer); }

  bool post(int peer, const Packet& packet, std::span<const std::byte> payload) override {
    if (outgoing_.size() >= kPacketsUnderWay) return false;
    Bytes bytes = join(packet, payload);
    Request request = transport_->send(peer, kPacketTag, bytes.data(), bytes.size());
    if (!transport_->test(request)) outgoing_.push_back({request, std::move(bytes)});
    return true;
  }

  bool poll(const Take& take) override {
    bool any = end_outgoing();
    for (int i = 0; i < kPacketsARound; ++i) {
      if (!incoming_ && !start_receiving()) break;
      const int from = incoming_->peer;
      const Progress progress = test(*incoming_);
      if (progress == Progress::under_way) break;
      incoming_.reset();
      any = true;
      if (progress == Progress::lost) continue;
      Packet packet;
      copy_bytes(&packet, bytes_.data(), sizeof packet);
      take(from, packet, std::span(bytes_).subspan(sizeof packet));
    }
    return any;
  }

  bool can_fetch(int) override { return false; }

  bool send(Bulk& bulk) override {
    return move(bulk, [&] {
      return transport_->send(bulk.peer, bulk_tag(bulk.id), bulk.memory, bulk.bytes);
    });
  }
  bool receive(Bulk& bulk) override {
    return move(bulk, [&] {
      return transport_->receive(bulk.peer, bulk_tag(bulk.id), bulk.memory, bulk.bytes);
    });
  }

  std::optional<Gone> gone(int peer, bool expected) override {
    if (expected) transport_->watch(peer);
    const auto reason = transport_->gone(peer);
    if (!reason) return std::nullopt;
    return Gone{*reason};
  }

  bool let_go(Bulk& bulk) override { return !bulk.state; }
  bool has_outgoing() const override { return !outgoing_.empty(); }

  void abandon() noexcept override {
    transport_->abandon();
    outgoing_.clear();
    incoming_.reset();
  }

  bool may_spin() override { return true; }
  std::uint64_t prepare_sleep() override { return transport_->prepare_sleep() ? 1 : 0; }
  void sleep(std::uint64_t prepared, std::chrono::microseconds limit) override {
    if (prepared != 0) transport_->sleep(limit);
  }
  void wake() noexcept override { transport_->wake(); }

 private:
  struct Outgoing {
    Request request;
    Bytes bytes;
  };

  template <class Start>
  bool move(Bulk& bulk, const Start& start) {
    if (!bulk.state) bulk.state = std::make_shared<Request>(start());
    if (!transport_->test(*std::static_pointer_cast<Request>(bulk.state))) return false;
    bulk.moved = bulk.bytes;
    return true;
  }

  // Of a packet, which nobody waits for: where its peer is gone it is lost.
  enum class Progress { under_way, done, lost };
  Progress test(Request& request) {
    try {
      return transport_->test(request) ? Progress::done : Progress::under_way;
    } catch (const PeerError&) {
      return Progress::lost;
    }
  }

  bool start_receiving() {
    try {
      const auto arrival = transport_->probe(kPacketTag);
      if (!arrival) return false;
      bytes_.resize(std::max(arrival->bytes, sizeof(Packet)));
      incoming_ = transport_->receive(arrival->peer, kPacketTag, bytes_.data(), arrival->bytes);
      return true;
    } catch (const Error&) {  // its sender is gone, as who waits for it will find
      return false;
    }
  }

  bool end_outgoing() {
    return std::erase_if(outgoing_, [&](Outgoing& one) {
             return test(one.request) != Progress::under_way;
           }) > 0;
  }

  std::unique_ptr<Transport> transport_;
  std::vector<int> local_;
  std::list<Outgoing> outgoing_;
  std::optional<Request> incoming_;
  Bytes bytes_;  // of the packet that is coming
};

}  // namespace

std::unique_ptr<Carrier> make_transport_carrier(std::unique_ptr<Transport> transport,
                                                std::vector<int> local) {
  return std::make_unique<TransportCarrier>(std::move(transport), std::move(local));
}

}  // namespace sullae::messages
