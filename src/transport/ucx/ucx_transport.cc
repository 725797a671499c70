#include "transport/ucx/ucx_transport.h"

#include <fmt/format.h>
#include <ucp/api/ucp.h>

#include <algorithm>
#include <array>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/host.h"
#include "base/own_thread.h"
#include "base/stall_warning.h"
#include "sullae/error.h"
#include "transport/ucx/lingering_sends.h"
#include "transport/ucx/ucx_connections.h"

namespace sullae {
namespace {

constexpr int kUcxForegroundSpins = 300;
constexpr int kUcxBackgroundSpins = 10;
constexpr std::chrono::milliseconds kPollPeriod{100};
constexpr std::chrono::milliseconds kCloseLimit{3000};
constexpr std::chrono::milliseconds kFailedCloseLimit{100};
// So long what is under way may take to end after the group has failed.
constexpr std::chrono::milliseconds kAbandonLimit{100};
// And in a group that goes on, until its peers have come as far.
constexpr std::chrono::milliseconds kPeersLimit{5000};
constexpr std::chrono::microseconds kUcxNap{50};
// Up to so many ranks connect to each other when the transport is made, more with the first
// message: each connection takes a socket at both ends.
constexpr std::size_t kConnectedAtOnce = 64;
constexpr std::uint64_t kGreetingTag = make_tag(0xffffff, 0xffff);

// The sender's index stands above the 40 bits of make_tag.
constexpr int kSenderShift = 40;
constexpr std::uint64_t kTagWithoutSender = (std::uint64_t{1} << kSenderShift) - 1;

class UcxTransport final : public Transport {
 public:
  UcxTransport(Rendezvous& rendezvous, TransportOptions options)
      : rendezvous_(rendezvous), options_(std::move(options)), connections_(options_.ranks.size()) {
    events_.reset(::dup(worker().event_fd));
    rendezvous_.put(options_.ranks, address_key(), worker().address());
    if (options_.ranks.size() <= kConnectedAtOnce) connect_all();
  }

  ~UcxTransport() override {
    lingering_.end();
    end_connections();
  }
  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;

  int rank() const override { return options_.index; }
  int size() const override { return static_cast<int>(options_.ranks.size()); }
  std::string name() const override { return "ucx"; }
  int world_rank(int peer) const override { return options_.ranks[static_cast<std::size_t>(peer)]; }

  Request send(int peer, std::uint64_t tag, const void* data, std::size_t bytes) override {
    const auto turn = lingering_.turn();
    check_usable(peer);
    const ucp_request_param_t params{};
    const auto full_tag = tag | static_cast<std::uint64_t>(rank()) << kSenderShift;
    void* native = ucp_tag_send_nbx(endpoint(peer), data, bytes, full_tag, &params);
    if (UCS_PTR_IS_ERR(native)) fail_status(peer, UCS_PTR_STATUS(native));
    if (native != nullptr) pending_.push_back(native);
    return {native, peer, bytes, false};
  }

  Request receive(int peer, std::uint64_t tag, void* data, std::size_t bytes) override {
    const auto turn = lingering_.turn();
    check_usable(peer);
    ucp_request_param_t params{};
    // An immediate completion would not tell the length; a request does.
    params.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    const auto full_tag = tag | static_cast<std::uint64_t>(peer) << kSenderShift;
    void* native =
        ucp_tag_recv_nbx(worker().handle, data, bytes, full_tag, ~std::uint64_t{0}, &params);
    if (UCS_PTR_IS_ERR(native)) fail_status(peer, UCS_PTR_STATUS(native));
    pending_.push_back(native);
    endpoint(peer);  // so that its death is noticed
    return {native, peer, bytes, true};
  }

  void wait(std::span<Request> requests) override {
    const Deadline deadline(options_.timeout);
    StallWarning warning(options_.stall_warning);
    const auto turn = lingering_.turn();
    for (Request& request : requests) {
      int idle = 0;
      while (request.native != nullptr && !finish(request)) {
        if (const auto failure = connections_.failure(request.peer); failure != UCS_OK)
          fail_status(request.peer, failure);
        if (++idle > 1) {
          check_world(*options_.failure);
          if (deadline.passed()) fail_timeout(request, deadline);
          check_alarm();
          warning.check("a collective", world_rank(rank()), world_rank(request.peer));
        }
        worker().progress(in_own_thread ? kUcxBackgroundSpins : kUcxForegroundSpins,
                          std::min(kPollPeriod, deadline.remaining()));
      }
    }
    look_after_sends();
  }

  bool test(Request& request) override {
    const auto turn = lingering_.turn();
    const bool was_broken = broken();
    try {
      if (request.native != nullptr && !finish(request)) ucp_worker_progress(worker().handle);
      if (request.native == nullptr || finish(request)) {
        look_after_sends();
        return true;
      }
      if (const auto failure = connections_.failure(request.peer); failure != UCS_OK)
        fail_status(request.peer, failure);
      return false;
    } catch (const PeerError&) {
      // Others' messages go on: it is for the caller to say what this one meant.
      if (cancel(request)) set_broken(was_broken);
      look_after_sends();
      throw;
    }
  }

  std::optional<Arrival> probe(std::uint64_t tag) override {
    const auto turn = lingering_.turn();
    if (connections_.have_ended()) return std::nullopt;
    ucp_worker_progress(worker().handle);
    ucp_tag_recv_info_t info{};
    if (ucp_tag_probe_nb(worker().handle, tag, kTagWithoutSender, /*remove=*/0, &info) == nullptr)
      return std::nullopt;
    return Arrival{static_cast<int>(info.sender_tag >> kSenderShift), info.length};
  }

  void watch(int peer) override {
    const auto turn = lingering_.turn();
    check_usable(peer);
    endpoint(peer);
  }
  std::optional<std::string> gone(int peer) override {
    const auto turn = lingering_.turn();
    const ucs_status_t failure = connections_.failure(peer);
    if (failure == UCS_OK) return std::nullopt;
    return fmt::format("UCX: {}", ucs_status_string(failure));
  }

  bool prepare_sleep() override {
    const auto turn = lingering_.turn();
    return connections_.have_ended() || ucp_worker_arm(worker().handle) != UCS_ERR_BUSY;
  }
  void sleep(std::chrono::microseconds limit) override { ucx::sleep(events_.get(), limit); }
  void wake() noexcept override {
    if (!connections_.have_ended()) ucp_worker_signal(worker().handle);
  }

  void abandon() noexcept override {
    const auto turn = lingering_.turn();
    if (pending_.empty()) return;
    for (void* native : pending_) ucp_request_cancel(worker().handle, native);
    // A cancelled receive ends at once unless its message has begun to come; a send cannot be taken
    // back. In a group that goes on, both end when the peer has come as far.
    const auto limit = Clock::now() + (broken() ? kAbandonLimit : kPeersLimit);
    for (;;) {
      std::erase_if(pending_, [](void* native) {
        if (ucp_request_check_status(native) == UCS_INPROGRESS) return false;
        ucp_request_free(native);
        return true;
      });
      if (pending_.empty()) return;
      if (Clock::now() >= limit) break;
      if (ucp_worker_progress(worker().handle) == 0) std::this_thread::sleep_for(kUcxNap);
    }
    // UCX lets go of the rest with its worker.
    set_broken();
    for (void* native : pending_) ucp_request_free(native);
    pending_.clear();
    end_connections();
  }

 private:
  ucx::Worker& worker() { return connections_.worker(); }

  // Takes one request back; false where UCX does not let go of it.
  bool cancel(Request& request) {
    if (request.native == nullptr) return true;
    ucp_request_cancel(worker().handle, request.native);
    const auto limit = Clock::now() + kAbandonLimit;
    while (ucp_request_check_status(request.native) == UCS_INPROGRESS) {
      if (Clock::now() >= limit) return false;
      ucp_worker_progress(worker().handle);
    }
    std::erase(pending_, request.native);
    ucp_request_free(std::exchange(request.native, nullptr));
    return true;
  }

  void look_after_sends() {
    if (!connections_.have_ended() && sends_in_software_ && !broken())
      lingering_.look_after(worker().handle);
  }

  std::string address_key() const { return "ucx/" + options_.name; }

  // Every connection is made in both directions now. Later, a peer that dies while it is being made
  // could make UCX abort (see endpoint), and the first collective would pay for it. Nobody fails in
  // a collective before everybody is connected.
  void connect_all() {
    try {
      greet_all();
      rendezvous_.fence(options_.ranks, "ucx/" + options_.name + "/connected");
    } catch (...) {  // whatever ended the world
      // A worker with requests or endpoints cannot be destroyed.
      set_broken();
      abandon();
      lingering_.end();
      end_connections();
      throw;
    }
  }

  void greet_all() {
    std::vector<Request> greetings;
    std::byte nothing{};
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      greetings.push_back(receive(peer, kGreetingTag, &nothing, 0));
      greetings.push_back(send(peer, kGreetingTag, &nothing, 0));
    }
    wait(greetings);
  }

  ucp_ep_h endpoint(int member) {
    if (connections_.endpoint(member) == nullptr) {
      const std::string address = rendezvous_.get(world_rank(member), address_key());
      const ucs_status_t status = connections_.connect(member, address);
      if (status != UCS_OK) fail_status(member, status);
    }
    return connections_.endpoint(member);
  }

  // True when the request has completed; then it is freed.
  bool finish(Request& request) {
    ucp_tag_recv_info_t info{};
    const ucs_status_t status = request.receives ? ucp_tag_recv_request_test(request.native, &info)
                                                 : ucp_request_check_status(request.native);
    if (status == UCS_INPROGRESS) return false;
    std::erase(pending_, request.native);
    ucp_request_free(request.native);
    request.native = nullptr;
    if (status == UCS_ERR_MESSAGE_TRUNCATED ||
        (status == UCS_OK && request.receives && info.length != request.bytes)) {
      throw other_length(request, status == UCS_OK ? fmt::to_string(info.length) : "more");
    }
    if (status != UCS_OK) fail_status(request.peer, status);
    return true;
  }

  void check_alarm() {
    ucp_tag_recv_info_t info{};
    ucp_tag_message_h found =
        ucp_tag_probe_nb(worker().handle, alarm_tag(), kTagWithoutSender, /*remove=*/1, &info);
    if (found == nullptr) return;
    std::array<char, kAlarmBytes> message{};
    const ucp_request_param_t params{};
    void* native =
        ucp_tag_msg_recv_nbx(worker().handle, message.data(), message.size(), found, &params);
    if (UCS_PTR_IS_PTR(native)) {
      while (ucp_request_check_status(native) == UCS_INPROGRESS)
        ucp_worker_progress(worker().handle);
      ucp_request_free(native);
    }
    take_alarm(message);
  }

  void check_usable(int peer) {
    if (connections_.have_ended()) fail_peer(peer, "UCX was ended after an earlier error");
  }

  [[noreturn]] void fail_status(int peer, ucs_status_t status) {
    check_alarm();  // a peer that has left may have said why
    fail_peer(peer, fmt::format("UCX: {}", ucs_status_string(status)));
  }

  void end_connections() {
    // Of a world that has failed, somebody may be out of reach.
    const bool has_failed = options_.failure->first() != nullptr;
    connections_.end(broken(), has_failed ? kFailedCloseLimit : kCloseLimit, lingering_);
  }

  Rendezvous& rendezvous_;
  TransportOptions options_;
  ucx::Connections connections_;  // ended where abandon() had to
  UniqueFd events_;               // the worker's, for a thread that may sleep while it goes
  std::vector<void*> pending_;    // requests that have not completed
  const bool sends_in_software_ = ucx::sends_in_software();
  ucx::LingeringSends lingering_;
};

}  // namespace

bool ucx_is_available() { return true; }

std::unique_ptr<Transport> make_ucx_transport(Rendezvous& rendezvous, TransportOptions options) {
  return std::make_unique<UcxTransport>(rendezvous, std::move(options));
}

}  // namespace sullae
