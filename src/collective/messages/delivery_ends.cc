// How operations end that do not arrive: given up here, taken back by their sender, or with their
// carrier.
#include <fmt/format.h>

#include <algorithm>

#include "collective/messages/delivery.h"
#include "sullae/error.h"

namespace sullae::messages {
namespace {

constexpr std::chrono::seconds kWithdrawLimit{1};

}  // namespace

std::exception_ptr Delivery::gave_up(int from, const Operation& receive) const {
  return std::make_exception_ptr(
      PeerError(from, fmt::format("receive: rank {} gave up its message to rank {} with tag {} "
                                  "before all of it had come",
                                  from, rank_, receive.tag)));
}

void Delivery::take_back(int from, std::uint64_t id) {
  std::erase_if(early_, [&](const Early& early) {
    return early.from == from && early.packet.kind == PacketKind::offer && early.packet.id == id;
  });
  for (auto* const moving : {&receiving_, &moved_}) {
    const auto found = std::ranges::find_if(
        *moving, [&](const Moving& one) { return one.bulk.peer == from && one.bulk.id == id; });
    if (found == moving->end()) continue;
    return fail(*moving, found, gave_up(from, *found->operation));
  }
}

// When it returns, the receiver has been told, or will see that what it reads is void.
void Delivery::withdraw(int peer, std::uint64_t id) {
  const Packet packet{.kind = PacketKind::withdrawn, .id = id};
  const auto limit = Clock::now() + kWithdrawLimit;
  try {
    Carrier& carrier = carrier_to(peer);
    while (!carrier.post(peer, packet, {})) {
      if (carrier.gone(peer, false)) return;
      if (Clock::now() >= limit) return carrier.take_back(id);
    }
  } catch (const Error&) {
    // Who is gone reads nothing.
  }
}

Operation* Delivery::take_offered(std::uint64_t id) {
  const auto found = offered_.find(id);
  if (found == offered_.end()) return nullptr;  // it was given up
  Operation* const operation = found->second;
  offered_.erase(found);
  std::erase_if(helping_, [&](const Helping& one) { return one.bulk.id == id; });
  return operation;
}

void Delivery::end(Operation& operation, const std::exception_ptr& error) {
  if (error) operation.error = error;
  operation.done = true;
  if (&operation != own_) ended_(operation);
}

void Delivery::give_up(Operation& operation, const std::exception_ptr& error) {
  for (auto* const moving : {&receiving_, &sending_}) {
    const auto found = std::ranges::find(*moving, &operation, &Moving::operation);
    if (found != moving->end()) return fail(*moving, found, error);
  }
  forget(operation);
  end(operation, error);
}

void Delivery::forget(const Operation& operation) {
  std::erase(posted_, &operation);
  for (auto& [peer, waiting] : outgoing_)
    std::erase_if(waiting, [&](const Outgoing& one) { return one.operation == &operation; });
  std::erase_if(outgoing_, [](const auto& peer) { return peer.second.empty(); });
  const auto offer =
      std::ranges::find_if(offered_, [&](const auto& one) { return one.second == &operation; });
  if (offer == offered_.end()) return;
  const std::uint64_t id = offer->first;
  take_offered(id);
  withdraw(operation.peer, id);
}

// One alone where its carrier can let go of it, else all of the carrier.
void Delivery::fail(std::list<Moving>& moving, std::list<Moving>::iterator one,
                    const std::exception_ptr& error) {
  Carrier& carrier = carrier_to(one->bulk.peer);
  if (!carrier.let_go(one->bulk)) return fail_carrier(carrier, error);
  const Moving lost = std::move(*one);
  moving.erase(one);
  if (&moving == &sending_) withdraw(lost.bulk.peer, lost.bulk.id);
  end(*lost.operation, error);
}

void Delivery::fail_carrier(Carrier& carrier, const std::exception_ptr& error) {
  carrier.abandon();
  std::vector<Operation*> lost;
  for (auto* const moving : {&receiving_, &sending_}) {
    std::erase_if(*moving, [&](const Moving& one) {
      if (!carrier.reaches(one.bulk.peer)) return false;
      lost.push_back(one.operation);
      return true;
    });
  }
  for (Operation* const operation : lost) end(*operation, error);
}

std::optional<Gone> Delivery::gone(int peer, bool expected) {
  if (peer == rank_) return std::nullopt;
  return carrier_to(peer).gone(peer, expected);
}

bool Delivery::has_sends(const Context& context) const {
  return std::ranges::any_of(offered_,
                             [&](const auto& one) { return one.second->context == &context; }) ||
         std::ranges::any_of(sending_,
                             [&](const Moving& one) { return one.operation->context == &context; });
}

bool Delivery::has_outgoing() const {
  return !outgoing_.empty() || std::ranges::any_of(carriers_, [](const auto& carrier) {
    return carrier->has_outgoing();
  });
}

void Delivery::close(const Context& context) {
  closed_.insert(context.number);
  for (const Early& early : early_) {
    if (early.packet.context == context.number && early.packet.kind == PacketKind::offer)
      answer(early.from, {.kind = PacketKind::left, .id = early.packet.id});
  }
  for (const Early& early : early_) {
    if (early.packet.context == context.number) tell_closed(context.number, early.from);
  }
  std::erase_if(early_, [&](const Early& early) { return early.packet.context == context.number; });
  for (auto* const by : {&wanted_by_, &waited_for_by_}) {
    for (const int peer : (*by)[context.number]) tell_closed(context.number, peer);
    by->erase(context.number);
  }
}

void Delivery::tell_closed(std::uint64_t context, int peer) {
  if (peer == rank_ || !told_closed_.emplace(context, peer).second) return;
  answer(peer, {.kind = PacketKind::left, .context = context});
}

void Delivery::want(const Context& context, int peer) {
  answer(peer, {.kind = PacketKind::wanted, .context = context.number});
}

void Delivery::ask_whether_left(const Context& context, int peer) {
  if (asked_.emplace(context.number, peer).second)
    answer(peer, {.kind = PacketKind::waits, .context = context.number});
}

}  // namespace sullae::messages
