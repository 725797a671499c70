#include "collective/messages/delivery.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/copy.h"
#include "sullae/error.h"

namespace sullae::messages {
namespace {

// As many as leave nothing of what an inbox holds.
constexpr int kPollsOfAll = 8;

bool fits(const Operation& receive, int from, const Packet& packet) {
  return receive.context->number == packet.context && receive.tag == packet.tag &&
         (receive.peer == from || receive.peer == kAnyPeer);
}

std::string describe(std::uint64_t bytes, DataType type) {
  return fmt::format("{} of {}", bytes / element_size(type), name(type));
}

}  // namespace

Delivery::Delivery(int rank, int size, std::vector<std::unique_ptr<Carrier>> carriers,
                   std::function<void(Operation&)> ended)
    : rank_(rank),
      carriers_(std::move(carriers)),
      carrier_of_(static_cast<std::size_t>(size)),
      ended_(std::move(ended)),
      take_([this](int from, const Packet& packet, std::span<const std::byte> payload) {
        take(from, packet, payload);
      }) {
  for (int peer = 0; peer < size; ++peer) {
    const auto found =
        std::ranges::find_if(carriers_, [&](const auto& one) { return one->reaches(peer); });
    if (found != carriers_.end()) carrier_of_[static_cast<std::size_t>(peer)] = found->get();
  }
}

Carrier& Delivery::carrier_to(int peer) const {
  return *carrier_of_[static_cast<std::size_t>(peer)];
}

void Delivery::close() {
  carriers_.clear();
  carrier_of_.clear();
}

void Delivery::begin(Operation& operation) {
  try {
    operation.sends ? begin_send(operation) : begin_receive(operation);
  } catch (const Error&) {  // the peer is gone, or was never reached
    give_up(operation, std::current_exception());
  }
}

void Delivery::begin_send(Operation& operation) {
  Packet packet{.kind = PacketKind::message,
                .type = operation.type,
                .tag = operation.tag,
                .context = operation.context->number,
                .bytes = operation.bytes};
  if (operation.peer == rank_) {
    take(rank_, packet, {operation.memory, operation.bytes});
    return end(operation);
  }
  if (operation.bytes > kMostPayload) {
    packet.kind = PacketKind::offer;
    packet.id = ++offers_;
    packet.place = reinterpret_cast<std::uint64_t>(operation.memory);
    offered_.emplace(packet.id, &operation);
  }
  post(operation.peer, {packet, &operation, {}});
}

void Delivery::begin_receive(Operation& operation) {
  const auto found = std::ranges::find_if(
      early_, [&](const Early& early) { return fits(operation, early.from, early.packet); });
  if (found == early_.end()) {
    posted_.push_back(&operation);
    return;
  }
  const Early early = std::move(*found);
  early_.erase(found);
  settle(operation, early.from, early.packet, early.payload);
}

void Delivery::post(int peer, Outgoing outgoing) {
  // In order: behind what waits already.
  const bool first = outgoing_.empty() || !outgoing_.contains(peer);
  if (first && try_post(peer, outgoing)) return;
  outgoing_[peer].push_back(std::move(outgoing));
}

void Delivery::answer(int peer, const Packet& packet, std::string text) {
  try {
    post(peer, {packet, nullptr, std::move(text)});
  } catch (const Error&) {
    // Who is gone needs none.
  }
}

bool Delivery::try_post(int peer, const Outgoing& outgoing) {
  const bool is_message = outgoing.packet.kind == PacketKind::message;
  const auto payload =
      is_message ? std::span<const std::byte>(outgoing.operation->memory, outgoing.operation->bytes)
                 : std::as_bytes(std::span(outgoing.text));
  if (!carrier_to(peer).post(peer, outgoing.packet, payload)) return false;
  if (is_message) end(*outgoing.operation);
  return true;
}

bool Delivery::flush() {
  bool any = false;
  std::vector<std::pair<Operation*, std::exception_ptr>> lost;
  for (auto peer = outgoing_.begin(); peer != outgoing_.end();) {
    auto& waiting = peer->second;
    try {
      while (!waiting.empty() && try_post(peer->first, waiting.front())) {
        waiting.pop_front();
        any = true;
      }
    } catch (const Error&) {  // the peer is gone
      if (waiting.front().operation != nullptr)
        lost.emplace_back(waiting.front().operation, std::current_exception());
      waiting.pop_front();
      any = true;
    }
    peer = waiting.empty() ? outgoing_.erase(peer) : std::next(peer);
  }
  for (const auto& [operation, error] : lost) give_up(*operation, error);
  return any;
}

bool Delivery::round() {
  bool any = false;
  for (const auto& carrier : carriers_) any = carrier->poll(take_) || any;
  if (!outgoing_.empty()) any = flush() || any;
  if (!receiving_.empty()) any = move(receiving_, &Carrier::receive) || any;
  if (!sending_.empty()) any = move(sending_, &Carrier::send) || any;
  if (!helping_.empty()) any = help() || any;
  return any;
}

bool Delivery::help() {
  std::erase_if(helping_, [&](const Helping& one) {
    return carrier_to(one.bulk.peer).help(one.bulk, one.asked);
  });
  return !helping_.empty();
}

bool Delivery::move(std::list<Moving>& moving, Step step) {
  bool any = false;
  for (auto one = moving.begin(); one != moving.end();) {
    const std::size_t before = one->bulk.moved;
    try {
      const bool all = (carrier_to(one->bulk.peer).*step)(one->bulk);
      any = any || all || one->bulk.moved != before;
      const auto next = std::next(one);
      if (all) moved_.splice(moved_.end(), moving, one);
      one = next;
    } catch (const Error&) {
      fail(moving, one, std::current_exception());
      any = true;
      break;  // the list may be another
    }
  }
  if (!moved_.empty()) end_moved();
  return any;
}

// What was read from a sender's memory counts only if the sender had not taken it back before the
// last byte: then it says so in a packet that is here by now, or, where there was no room for one,
// in its own memory.
void Delivery::end_moved() {
  const bool fetched = std::ranges::any_of(moved_, &Moving::tells_sender);
  for (int i = 0; fetched && i < kPollsOfAll; ++i) {
    bool any = false;
    for (const auto& carrier : carriers_) any = carrier->poll(take_) || any;
    if (!any) break;
  }
  const std::list<Moving> all = std::exchange(moved_, {});
  for (const Moving& one : all) {
    const int from = one.bulk.peer;
    const bool is_void = one.tells_sender && carrier_to(from).was_taken_back(one.bulk);
    // Of a void one the sender may not know that it is: it is among many that it took back at once.
    if (one.tells_sender)
      answer(from, {.kind = is_void ? PacketKind::left : PacketKind::done, .id = one.bulk.id});
    end(*one.operation, is_void ? gave_up(from, *one.operation) : nullptr);
  }
}

// Or an offer of one.
void Delivery::take_message(int from, const Packet& packet, std::span<const std::byte> payload) {
  if (closed_.contains(packet.context)) {
    if (packet.kind == PacketKind::offer) answer(from, {.kind = PacketKind::left, .id = packet.id});
    return tell_closed(packet.context, from);
  }
  const auto found = std::ranges::find_if(
      posted_, [&](const Operation* receive) { return fits(*receive, from, packet); });
  if (found == posted_.end()) {
    early_.push_back({from, packet, {payload.begin(), payload.end()}});
    return;
  }
  Operation& receive = **found;
  posted_.erase(found);
  settle(receive, from, packet, payload);
}

void Delivery::take(int from, const Packet& packet, std::span<const std::byte> payload) {
  switch (packet.kind) {
    case PacketKind::message:
    case PacketKind::offer:
      return take_message(from, packet, payload);
    case PacketKind::ready:
      if (Operation* const send = take_offered(packet.id)) {
        sending_.push_back(
            {{.peer = from, .id = packet.id, .memory = send->memory, .bytes = send->bytes},
             send,
             false});
      } else {
        answer(from, {.kind = PacketKind::withdrawn, .id = packet.id});
      }
      return;
    case PacketKind::withdrawn:
      return take_back(from, packet.id);
    case PacketKind::help:
      if (const auto found = offered_.find(packet.id); found != offered_.end()) {
        const Operation& send = *found->second;
        helping_.push_back(
            {{.peer = from, .id = packet.id, .memory = send.memory, .bytes = send.bytes}, packet});
      }
      return;
    case PacketKind::part:
      return place_part(from, packet, payload);
    case PacketKind::done:
      if (Operation* const send = take_offered(packet.id)) end(*send);
      return;
    case PacketKind::refused:
      if (Operation* const send = take_offered(packet.id)) {
        end(*send, std::make_exception_ptr(MismatchError(
                       {reinterpret_cast<const char*>(payload.data()), payload.size()})));
      }
      return;
    case PacketKind::wanted:
      if (closed_.contains(packet.context)) return tell_closed(packet.context, from);
      wanted_by_[packet.context].insert(from);
      return wanted_(packet.context);
    case PacketKind::waits:
      if (closed_.contains(packet.context)) return tell_closed(packet.context, from);
      waited_for_by_[packet.context].insert(from);
      return;
    case PacketKind::left:
      if (packet.id == 0) {
        left_.emplace(packet.context, from);
      } else if (Operation* const send = take_offered(packet.id)) {
        end(*send, std::make_exception_ptr(PeerError(
                       from, fmt::format("send: rank {} left the group before it had received the "
                                         "message of rank {} with tag {}",
                                         from, rank_, send->tag))));
      }
      return;
  }
}

void Delivery::settle(Operation& receive, int from, const Packet& packet,
                      std::span<const std::byte> payload) {
  receive.source = from;
  const bool offered = packet.kind == PacketKind::offer;
  if (packet.type != receive.type || packet.bytes != receive.bytes) {
    const std::string text =
        fmt::format("receive: rank {} expected {} from rank {} with tag {}, which sent {}", rank_,
                    describe(receive.bytes, receive.type), from, packet.tag,
                    describe(packet.bytes, packet.type));
    if (offered) answer(from, {.kind = PacketKind::refused, .id = packet.id}, text);
    return end(receive, std::make_exception_ptr(MismatchError(text)));
  }
  if (!offered) {
    copy_bytes(receive.memory, payload.data(), payload.size());
    return end(receive);
  }
  Moving moving{{.peer = from,
                 .id = packet.id,
                 .memory = receive.memory,
                 .bytes = receive.bytes,
                 .source = std::bit_cast<const void*>(packet.place)},
                &receive,
                false};
  Packet reply{.kind = PacketKind::ready, .id = packet.id};
  try {
    Carrier& carrier = carrier_to(from);
    moving.tells_sender = carrier.can_fetch(from);
    const auto help = moving.tells_sender ? carrier.ask_for_help(moving.bulk) : std::nullopt;
    if (help) reply = *help;
    const bool replies = help || !moving.tells_sender;
    receiving_.push_back(std::move(moving));
    if (replies) answer(from, reply);
  } catch (const Error&) {  // it cannot be reached
    end(receive, std::current_exception());
  }
}

void Delivery::place_part(int from, const Packet& packet, std::span<const std::byte> payload) {
  for (Moving& one : receiving_) {
    Bulk& bulk = one.bulk;
    if (bulk.peer != from || bulk.id != packet.id) continue;
    if (packet.place != bulk.moved || payload.size() > bulk.bytes - bulk.moved) return;
    copy_bytes(bulk.memory + bulk.moved, payload.data(), payload.size());
    bulk.moved += payload.size();
    return;
  }
}

}  // namespace sullae::messages
