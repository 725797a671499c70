// The loop of a parameter server.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "ps/packet.h"
#include "ps/server/group.h"
#include "ps/server/replies.h"
#include "sullae/ps/server.h"

namespace sullae::ps {

/// Answers one message at a time; the socket's owner is the thread that calls.
class ServerLoop {
 public:
  explicit ServerLoop(const ServerOptions& options);

  const std::string& endpoint() const { return endpoint_; }
  /// Answers what comes within `limit`, and looks after leases.
  void turn(std::chrono::milliseconds limit);
  /// Whether all workers that were expected have left, where that is the end.
  bool is_over() const;
  /// Where there is a file, and something has changed.
  void save();
  /// The worker's process has ended.
  void forget(int worker);

 private:
  bool receive(Message& message);
  void answer(Message& message);
  void hello(Message& message);
  void take_note(Group& group);
  void take_leave(int worker);
  void expire();
  std::uint64_t job() const;

  ServerOptions options_;
  zmq::context_t context_;
  zmq::socket_t socket_;
  Replies replies_;
  std::string endpoint_;
  std::map<std::uint64_t, std::unique_ptr<Group>> groups_;  // by the hash of the name
  std::set<int> left_;   // workers that are in no group any more, of their own accord
  std::set<int> ended_;  // workers for which a group that is new need not wait
  std::optional<Clock::time_point> all_left_;
  std::optional<Clock::time_point> changed_;  // since what is on the disk
};

}  // namespace sullae::ps
