// When an operation can have no end any more, and what is said of it.
#include <fmt/format.h>

#include "collective/messages/messenger.h"
#include "sullae/error.h"

namespace sullae::messages {
namespace {

// Of what a peer that is gone may have left behind.
constexpr int kLastRounds = 10000;

}  // namespace

void Messenger::check(Operation& operation) {
  if (const auto error = why_over(operation)) delivery_.give_up(operation, error);
}

std::exception_ptr Messenger::why_over(Operation& operation) {
  if (auto error = operation.failure->first()) return error;
  if (!operation.patience) {
    operation.patience = std::make_unique<Patience>(Patience{
        Deadline(options_.timeout, "SULLAE_TIMEOUT"), StallWarning(options_.stall_warning)});
  }
  const Deadline& deadline = operation.patience->deadline;
  try {
    check_peers(operation);
  } catch (const Error&) {
    // What it sent before it went may have come by now.
    for (int i = 0; i < kLastRounds && delivery_.round(); ++i) {
    }
    return operation.done ? nullptr : std::current_exception();
  }
  const auto who = operation.peer == kAnyPeer ? "any rank" : fmt::format("rank {}", operation.peer);
  if (deadline.passed() && operation.is_bootstrap()) {
    return std::make_exception_ptr(TimeoutError(
        fmt::format("process set: rank {} waited for {}, which has not used the set {}",
                    options_.rank, who, deadline.describe())));
  }
  if (deadline.passed()) {
    return std::make_exception_ptr(TimeoutError(fmt::format(
        "{}: rank {} waited for {} (tag {}), which did not {} {}", operation.name(), options_.rank,
        who, operation.tag, operation.sends ? "receive it" : "send", deadline.describe())));
  }
  if (operation.peer != kAnyPeer)
    operation.patience->warning.check(operation.name(), options_.rank, operation.peer);
  return nullptr;
}

// Throws PeerError where the operation can have no end.
void Messenger::check_peers(const Operation& operation) {
  const auto fail = [&](int peer, const Gone& gone) {
    throw PeerError(
        peer, fmt::format("{}: rank {} ({}) {} while rank {} waited for it", operation.name(), peer,
                          gone.who, gone.died ? "died" : "left the world", options_.rank));
  };
  if (operation.peer != kAnyPeer) {
    if (delivery_.has_left(*operation.context, operation.peer)) {
      throw PeerError(operation.peer,
                      fmt::format("{}: rank {} has left the process set, and rank {} waited for it",
                                  operation.name(), operation.peer, options_.rank));
    }
    if (const auto gone = delivery_.gone(operation.peer, true)) fail(operation.peer, *gone);
    return;
  }
  std::optional<Gone> last;
  int left = kAnyPeer;
  for (const int peer : operation.context->members) {
    if (peer == options_.rank) continue;
    auto gone = delivery_.gone(peer, false);
    if (gone && gone->died) fail(peer, *gone);
    if (!gone) return;
    last = std::move(gone);
    left = peer;
  }
  if (last) fail(left, *last);
}

}  // namespace sullae::messages
