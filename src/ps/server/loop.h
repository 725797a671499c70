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
  /// Whether as many workers as were expected have come and none is there any more, where that is
  /// the end.
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
  /// Why it cannot come now; empty where it can.
  std::string too_late(int worker, const std::string& name) const;
  void gone(int worker, bool has_ended_well);
  void died(int worker);
  void expire();
  std::uint64_t job() const;
  void try_to_save();
  void renew_after_pause(std::chrono::milliseconds limit);
  bool are_whole() const;
  bool is_of_this_job(const Message& message) const;

  ServerOptions options_;
  zmq::context_t context_;
  zmq::socket_t socket_;
  Replies replies_;
  std::string endpoint_;
  std::map<std::uint64_t, std::unique_ptr<Group>> groups_;  // by group_of() it
  std::set<int> came_;
  std::set<int> gone_;    // of those, who are in no group any more
  std::set<int> failed_;  // of those, who have not ended well, and may come again
  std::set<int> dead_;    // workers for which a group that is new need not wait
  Clock::time_point last_gone_;
  UniqueFd lock_;  // of the state file
  bool is_to_save_soon_ = false;
  Clock::time_point ended_ = Clock::now();    // the last turn
  std::optional<Clock::time_point> changed_;  // since what is on the disk
  std::string problem_;                       // of the last time that it was to be saved
};

}  // namespace sullae::ps
