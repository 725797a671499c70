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
    operation.patience = std::make_unique<Patience>(
        Patience{Deadline(options_.timeout), StallWarning(options_.stall_warning)});
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
  const Context& context = *operation.context;
  const bool any = operation.peer == kAnyPeer;
  // Nothing where `peer` still takes part.
  const auto why_not = [&](int peer) -> std::optional<PeerError> {
    if (delivery_.has_left(context, peer)) {
      return PeerError(
          peer, fmt::format("{}: rank {} has left the process set, and rank {} waited for it",
                            operation.name(), peer, options_.rank));
    }
    if (const auto gone = delivery_.gone(peer, !any)) {
      PeerError error(peer, fmt::format("{}: rank {} ({}) {} while rank {} waited for it",
                                        operation.name(), peer, gone->who,
                                        gone->died ? "died" : "left the world", options_.rank));
      if (gone->died) throw error;
      return error;
    }
    if (context.is_set && peer != options_.rank) delivery_.ask_whether_left(context, peer);
    return std::nullopt;
  };
  if (!any) {
    if (const auto error = why_not(operation.peer)) throw *error;
    return;
  }
  std::optional<PeerError> last;
  bool all = true;
  for (const int peer : context.members) {
    if (peer == options_.rank) continue;
    if (auto error = why_not(peer)) {
      last = std::move(error);
    } else {
      all = false;
    }
  }
  if (all && last) throw *last;
}

}  // namespace sullae::messages
