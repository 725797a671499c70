// Which send goes with which receive, and getting the data there.
//
// A message of up to a few kilobytes travels in one packet, and its send is done when it is on its
// way; what arrives before its receive is kept here. A larger one is offered, and its data moves
// once the receiver has a place for it: never more memory than the program's own.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collective/messages/carrier.h"
#include "collective/messages/operation.h"

namespace sullae::messages {

/// Of one rank. One thread at a time may call.
class Delivery {
 public:
  /// `ended` is told of each operation that has come to its end, but for that of set_own(), in the
  /// middle of a call: it calls nothing here.
  Delivery(int rank, int size, std::vector<std::unique_ptr<Carrier>> carriers,
           std::function<void(Operation&)> ended);

  /// `wanted` is told the number of each context that another rank wants, in the middle of a call.
  void set_wanted(std::function<void(std::uint64_t)> wanted) { wanted_ = std::move(wanted); }
  bool is_wanted(const Context& context) const { return wanted_by_.contains(context.number); }
  /// Tells a member of `context` that this rank wants it.
  void want(const Context& context, int peer);
  /// Asks `peer`, once, to say when it leaves `context`.
  void ask_whether_left(const Context& context, int peer);
  /// Whether `peer` has answered something of `context` by saying that it has left.
  bool has_left(const Context& context, int peer) const {
    return left_.contains({context.number, peer});
  }

  /// The operation whose end the caller sees for itself; null: none.
  void set_own(const Operation* own) { own_ = own; }

  /// Starts an operation, which may end it.
  void begin(Operation& operation);
  /// Moves what can be moved now; whether there was anything.
  bool round();
  /// Ends an operation that has not ended.
  void give_up(Operation& operation, const std::exception_ptr& error);

  /// See Carrier.
  std::optional<Gone> gone(int peer, bool expected);
  /// Whether a send of `context` has not ended.
  bool has_sends(const Context& context) const;
  /// Whether anything waits for room at its receiver's or on its way out, for whomever.
  bool has_outgoing() const;
  /// Whether data moves that nobody rings a bell for: to be looked at often.
  bool is_moving() const {
    return !outgoing_.empty() || !sending_.empty() || !receiving_.empty() || !helping_.empty();
  }
  bool is_closed(const Context& context) const { return closed_.contains(context.number); }
  /// Drops what came for `context`, now and later.
  void close(const Context& context);
  /// Lets go of the carriers.
  void close();

  std::span<const std::unique_ptr<Carrier>> carriers() const { return carriers_; }

 private:
  // Something that came before its receive.
  struct Early {
    int from;
    Packet packet;
    std::vector<std::byte> payload;
  };
  // What waits for room at its receiver's. Its payload is the operation's memory, or text.
  struct Outgoing {
    Packet packet;
    Operation* operation;
    std::string text;
  };
  struct Moving {
    Bulk bulk;
    Operation* operation;
    bool tells_sender;  // who learns only so that the data has been fetched
  };
  // What this rank, the sender, may help with.
  struct Helping {
    Bulk bulk;
    Packet asked;
  };
  using Step = bool (Carrier::*)(Bulk&);

  void begin_send(Operation& operation);
  void begin_receive(Operation& operation);
  void post(int peer, Outgoing outgoing);
  void answer(int peer, const Packet& packet, std::string text = {});
  bool try_post(int peer, const Outgoing& outgoing);
  bool flush();
  bool help();
  void end_moved();
  void withdraw(int peer, std::uint64_t id);
  std::exception_ptr gave_up(int from, const Operation& receive) const;
  void take_back(int from, std::uint64_t id);
  bool move(std::list<Moving>& moving, Step step);
  void take_message(int from, const Packet& packet, std::span<const std::byte> payload);
  void take(int from, const Packet& packet, std::span<const std::byte> payload);
  void tell_closed(std::uint64_t context, int peer);
  void place_part(int from, const Packet& packet, std::span<const std::byte> payload);
  void settle(Operation& receive, int from, const Packet& packet,
              std::span<const std::byte> payload);
  void end(Operation& operation, const std::exception_ptr& error = nullptr);
  void forget(const Operation& operation);
  void fail(std::list<Moving>& moving, std::list<Moving>::iterator one,
            const std::exception_ptr& error);
  void fail_carrier(Carrier& carrier, const std::exception_ptr& error);
  Operation* take_offered(std::uint64_t id);
  Carrier& carrier_to(int peer) const;

  int rank_;
  std::vector<std::unique_ptr<Carrier>> carriers_;
  std::vector<Carrier*> carrier_of_;  // by rank
  std::function<void(Operation&)> ended_;
  const Operation* own_ = nullptr;
  Carrier::Take take_;
  std::vector<Operation*> posted_;  // receives without a message, in their order
  std::list<Early> early_;          // messages without a receive, in their order
  std::map<int, std::deque<Outgoing>> outgoing_;
  std::unordered_map<std::uint64_t, Operation*> offered_;
  std::list<Moving> receiving_;
  std::list<Moving> moved_;  // all of it, and not ended yet
  std::list<Moving> sending_;
  std::list<Helping> helping_;  // while the receiver has not said that it is done
  std::function<void(std::uint64_t)> wanted_;
  std::map<std::uint64_t, std::set<int>> wanted_by_;  // peers, by context
  std::map<std::uint64_t, std::set<int>> waited_for_by_;
  std::set<std::pair<std::uint64_t, int>> asked_;  // contexts and who was asked whether it has left
  std::set<std::uint64_t> closed_;                 // contexts
  std::set<std::pair<std::uint64_t, int>> left_;   // contexts and who left them
  std::set<std::pair<std::uint64_t, int>>
      told_closed_;  // contexts and who knows that this rank left them
  std::uint64_t offers_ = 0;
};

}  // namespace sullae::messages
