// A worker's side of parameter servers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "ps/heartbeat.h"
#include "ps/packet.h"
#include "ps/placement.h"
#include "ps/rule.h"

namespace sullae::ps {

struct ClientOptions {
  std::vector<std::string> servers;
  int worker = 0;
  std::string secret;
  std::chrono::milliseconds timeout{600000};
};

/// What the servers' values met, over all slices and steps.
struct Delays {
  std::int64_t slices = 0;
  std::int64_t leads = 0;
  std::int64_t most_lead = 0;
  std::int64_t updates = 0;
  std::int64_t most_updates = 0;
};

/// A message that is lost with its connection, or with its server, is sent again, and taken once: a worker's gradients are
/// numbered, and a server that has lost what it took says so. Used by one thread.
class Client {
 public:
  /// Greets the servers. Throws InputError where one refuses, TimeoutError where one does not answer.
  Client(ClientOptions options, std::vector<Slice> slices, const Rule& rule);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const std::vector<Slice>& slices() const { return slices_; }
  /// Of a slice, range after range: what push_pull() sends and receives.
  std::span<float> values(std::size_t slice) {
    zmq::message_t& values = states_[slice].values;
    return {static_cast<float*>(values.data()), values.size() / sizeof(float)};
  }
  std::vector<float>& gradient(std::size_t slice) { return *states_[slice].gradient; }
  /// By range: whether there is a gradient.
  std::vector<std::uint8_t>& present(std::size_t slice) { return states_[slice].present; }

  /// The first worker's values become those of servers that have none; then all receive the servers'.
  void start();
  /// Sends all gradients and returns with the values to go on with. Throws TimeoutError, Error.
  void push_pull(double learning_rate);

  /// Receives the servers' values as they are.
  void pull();

  /// The others wait for this worker no more, until it pulls, which it does before it pushes again.
  void rest();
  /// The rule's state of a slice, as pack() gives it: what pull_state() receives and put_state() sends.
  std::vector<std::byte>& state(std::size_t slice) { return states_[slice].state; }
  void pull_state();
  /// To be called by worker 0, while nobody pushes.
  void put_state();

  /// What the servers allow.
  int staleness_bound() const { return staleness_bound_; }
  const Delays& delays() const { return delays_; }

 private:
  enum class Asked { nothing, values, push, rest, state, store };
  struct SliceState {
    zmq::message_t values;  // as they came
    std::shared_ptr<std::vector<float>> gradient;
    std::vector<std::uint8_t> present;
    std::vector<std::byte> state;
    std::uint64_t question = 0;
    bool taken = false;  // as the server said when it welcomed this worker
    Asked asked = Asked::nothing;
  };
  struct ServerState {
    zmq::socket_t socket;
    std::vector<std::uint32_t> slices;
    bool greeted = false;
    bool needs_values = false;
    Clock::time_point spoken;  // when it was asked, or answered, last
    std::chrono::milliseconds patience{};
    int waits_for = -1;  // the worker that it said it waits for
  };

  void greet(ServerState& server);
  void ask_all(Asked what, const char* for_what);
  void wait(const char* for_what);
  bool answered(const ServerState& server) const;
  void ask(ServerState& server, std::uint32_t slice, bool again);
  void ask_again(ServerState& server);
  bool receive(std::size_t server);
  void welcome(ServerState& server, const nlohmann::json& said);
  void take_values(const Header& header, zmq::message_t& values);
  void take_state(const Header& header, const zmq::message_t& part);
  void give_first_values(ServerState& server);
  void send(ServerState& server, Header header);
  void send(ServerState& server, Header header, zmq::message_t part);
  void send_gradient(ServerState& server, std::uint32_t slice, bool again);
  std::string name_of(std::size_t server) const;
  std::string describe(std::size_t server) const;
  [[noreturn]] void fail(const Deadline& deadline, const char* for_what) const;

  ClientOptions options_;
  std::vector<Slice> slices_;
  Rule rule_;
  std::uint64_t incarnation_;
  zmq::context_t context_;
  std::vector<ServerState> servers_;
  std::vector<SliceState> states_;
  std::uint64_t questions_ = 0;
  double learning_rate_ = 0;
  int staleness_bound_ = 0;
  Delays delays_;
  std::atomic<bool> rests_ = false;
  Heartbeat heartbeat_;
};

}  // namespace sullae::ps
