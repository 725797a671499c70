// A worker's side of parameter servers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "ps/client/heartbeat.h"
#include "ps/client/name_in_use.h"
#include "ps/packet.h"

namespace sullae::ps {

struct ClientOptions {
  std::vector<std::string> servers;
  int worker = 0;
  /// Of the group: workers of one name train one thing.
  std::string name = "optimizer";
  std::string secret;
  std::chrono::milliseconds timeout{600000};
};

/// What the servers' values met, over all items and steps.
struct Delays {
  std::int64_t items = 0;
  std::int64_t leads = 0;
  std::int64_t most_lead = 0;
  std::int64_t updates = 0;
  std::int64_t most_updates = 0;
};

/// Asks servers for what they have of items, of which each is on one of them. A message that is
/// lost with its connection, or with its server, is sent again, and taken once: a worker's
/// gradients are numbered, and a server that has lost what it took says so. What is asked and
/// answered, derived classes know. Used by one thread.
class Client {
 public:
  virtual ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// The others wait for this worker no more, until it pulls, which it does before it pushes again.
  void rest();
  /// What the servers allow.
  int staleness_bound() const { return staleness_bound_; }
  const Delays& delays() const { return delays_; }
  /// Whether gradients of a step were sent ahead, and push_all() is still to follow.
  bool is_pushing() const { return is_pushing_; }

 protected:
  enum class Request { nothing, values, push, rows, rest, state, store, clear };
  using Items = std::vector<std::uint32_t>;

  /// `on` says by item which server it is on. greet_all() is to follow.
  Client(ClientOptions options, const std::vector<int>& on);
  /// Throws InputError where a server refuses, TimeoutError where one does not answer.
  void greet_all();

  /// Asks for all items, or for those, and returns with the answers. Throws TimeoutError, Error.
  void ask_all(Request what, const char* for_what) { ask(what, turns_, for_what); }
  void ask(Request what, std::span<const std::uint32_t> items, const char* for_what);
  void push_all(double learning_rate);
  /// Of one item, before the others: push_all() sends the rest, and nothing else is asked before.
  void push_ahead(std::uint32_t item, double learning_rate);
  bool has_pushed(std::uint32_t item) const { return items_[item].request == Request::push; }
  void pull_all();
  /// Where a server said that it has no values.
  void give_first_values();

  const ClientOptions& options() const { return options_; }
  std::string name_of(std::size_t server) const;
  /// To the server of the header's item.
  template <class... Parts>
  void send(const Header& header, Parts... parts) {
    Server& server = servers_[items_[header.item].server];
    server.last_activity = Clock::now();
    send_message(server.socket, header, std::move(parts)...);
  }

  /// A server came back without what it held of these items.
  virtual void lost(std::size_t server) { static_cast<void>(server); }
  /// What to say of these items, beside who it is.
  virtual nlohmann::json description(std::span<const std::uint32_t> items) const = 0;
  virtual void send_first_values(const Header&) {}
  /// The gradient; what is sent again may still be on its way when the step ends.
  enum class Attempt { first, again };
  virtual void send_push(const Header& header, Attempt attempt) = 0;
  /// For rows or a state, or to store or forget them, as the header says.
  virtual void send_request(const Header& header) = 0;
  /// What was asked for has come.
  virtual void take(std::uint32_t item, Request request, std::vector<zmq::message_t>& parts) = 0;

 private:
  struct Item {
    std::size_t server = 0;
    std::uint64_t request_id = 0;
    Request request = Request::nothing;
    bool taken = false;  // as the server said when it welcomed this worker

    bool is_asked() const { return request != Request::nothing; }
  };
  struct Server {
    zmq::socket_t socket;
    Items items;
    bool greeted = false;
    bool needs_values = false;
    std::string group;  // what it calls what it holds: another name where that is another
    Clock::time_point last_activity;  // when it was asked, or answered, last
    std::chrono::milliseconds retry_interval{};
    int waits_for = -1;  // the worker that it said it waits for
  };

  Header header_of(Kind kind) const;
  Header header_of(std::uint32_t item, Kind kind) const;
  void greet(Server& server);
  void give_first_values(Server& server);
  void wait(const char* for_what);
  void wait_for_answers(const char* for_what);
  void check_whole() const;
  bool answered(const Server& server) const;
  void send_first(std::uint32_t item);
  void resend(std::uint32_t item);
  void resend_if_late(Server& server);
  bool receive(std::size_t server);
  void handle(std::size_t server, const Header& header, std::vector<zmq::message_t>& parts);
  void welcome(std::size_t server, const nlohmann::json& said);
  void take_answer(const Header& header, std::vector<zmq::message_t>& parts);
  std::string describe(std::size_t server) const;
  [[noreturn]] void fail(const Deadline& deadline, const char* for_what) const;

  ClientOptions options_;
  NameInUse name_in_use_;
  std::uint64_t group_;
  std::uint64_t incarnation_;
  zmq::context_t context_;
  std::vector<Server> servers_;
  std::vector<Item> items_;
  Items turns_;  // one of each server in turn, so that all have work
  std::uint64_t last_request_id_ = 0;
  std::atomic<std::int64_t> step_ = 0;  // of this worker; the heartbeat says it, too
  std::int64_t next_step_ = 0;  // the furthest of the clocks that servers have of this worker
  double learning_rate_ = 0;
  bool is_pushing_ = false;
  bool is_torn_ = false;  // a step, for good
  int staleness_bound_ = 0;
  Delays delays_;
  const int exceptions_ = std::uncaught_exceptions();
  std::atomic<bool> rests_ = false;
  Heartbeat heartbeat_;
};

}  // namespace sullae::ps
