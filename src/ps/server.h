// The loop of a parameter server.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ps/members.h"
#include "ps/packet.h"
#include "ps/shard.h"
#include "sullae/ps/server.h"

namespace sullae::ps {

/// Answers one message at a time; the socket's owner is the thread that calls.
class ServerLoop {
 public:
  explicit ServerLoop(const ServerOptions& options);

  const std::string& endpoint() const { return endpoint_; }
  /// Answers what comes within `limit`, and looks after leases.
  void turn(std::chrono::milliseconds limit);
  /// Where there is a file, and something has changed.
  void save();
  /// The worker's process has ended.
  void forget(int worker);

 private:
  struct Message {
    zmq::message_t from;  // ZeroMQ's name of the sender
    Header header;
    std::vector<zmq::message_t> parts;
  };
  struct Waiting {
    zmq::message_t to;
    Header header;
  };

  void note_change();
  bool receive(Message& message);
  void answer(Message& message);
  void answer_known(Message& message);
  void hello(Message& message);
  void rest(Message& message);
  void pull(Message& message, Shard& shard);
  void ask_for_values(Message& message, Shard& shard);
  bool gives_values(int worker) const;
  std::uint64_t job() const;
  void first(const Message& message, Shard& shard);
  void push(Message& message, Shard& shard);
  void put_state(Message& message, Shard& shard);
  void query(Message& message, Shard& shard);
  void wait_to_go_on(Message& message, Shard& shard, const Header& header);
  void give(zmq::message_t& to, Header header, Shard& shard);
  void look_again();
  void release(std::vector<Waiting>& waiting, Shard& shard);
  void reply(zmq::message_t& to, const Header& header);
  void reply(zmq::message_t& to, const Header& header, zmq::message_t part);
  void refuse(Message& message, const std::string& why);
  std::string wrong_with(const nlohmann::json& said, const Rule& rule) const;

  ServerOptions options_;
  zmq::context_t context_;
  zmq::socket_t socket_;
  std::string endpoint_;
  Members members_;
  std::optional<Rule> rule_;
  std::map<std::uint32_t, Shard> shards_;
  std::map<std::uint32_t, std::vector<Waiting>> waiting_;
  std::optional<Clock::time_point> changed_;  // since what is on the disk
};

}  // namespace sullae::ps
