// This process as a worker of an elastic job: what joins one world after the other.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/environment.h"
#include "launch/elastic/protocol.h"
#include "sullae/sullae.h"
#include "transport/store/store.h"

namespace sullae::elastic {

/// Used by the thread that trains; a thread of its own hears what the launcher says. Takes
/// over SIGTERM, which asks this worker to go after the step.
class Member {
 public:
  /// Null where `sullae run` has not started this process for an elastic job.
  static Member* of_this_process();

  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  /// Says that this worker is ready, and joins the next world that it is in; tries again where that
  /// world fails while it is made. Throws TimeoutError where none comes within
  /// SULLAE_ELASTIC_TIMEOUT, which is not before the launcher gives up. Empty where this worker was
  /// asked to go meanwhile.
  std::optional<World> join();
  /// Of what ended the world that join() gave; before the next join().
  void world_ended(std::string reason);

  /// Somebody comes or goes: all members should come out of their world, together, after a step.
  /// Where it is this worker that goes, the launcher hears of it.
  bool wants_out();
  /// This worker is to go: it was asked to, or its host is wanted back.
  bool leaves() const;
  /// This worker has come out of its world and will not join another.
  void leave();

  /// What ended the world before the one that join() gave last; empty for a worker's first.
  const std::string& why_changed() const { return why_changed_; }

  int worker() const { return worker_; }
  /// Of the world that join() gave last.
  int generation() const { return generation_; }

 private:
  Member(const Environment& environment, int worker);
  void listen();
  void stop_listening();
  void say_that_it_leaves();
  void on_message(const LauncherMessage& message);
  std::optional<LauncherMessage> wait_for_world();
  std::optional<World> try_to_join(const LauncherMessage& message);
  void send(WorkerMessage::Kind kind, std::string reason = {});

  int worker_;
  std::string address_;
  std::string secret_;
  std::chrono::milliseconds timeout_;
  std::string reason_;
  std::string why_changed_;
  std::optional<std::chrono::steady_clock::time_point> ended_;
  int sent_ = 0;
  std::unique_ptr<Store> outgoing_;
  int generation_ = -1;
  bool is_leaving_ = false;
  bool has_been_in_one_ = false;  // and so has the state that worlds hand on
  int not_joined_ = 0;            // worlds since the last one

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<LauncherMessage> worlds_;  // that this worker is told to join
  std::optional<World> world_;          // that it is in
  std::string interrupt_reason_;
  int abandoned_ = -1;  // the last generation whose world has failed
  bool is_released_ = false;
  std::exception_ptr listener_error_;

  std::atomic<int> interrupted_{-1};  // the last generation that is to come out of its world
  std::atomic<bool> goes_ = false;    // with it
  pid_t process_ = ::getpid();
  std::unique_ptr<Store> incoming_;
  std::thread listener_;
};

/// Of init(): the world that this worker is in, or that it joins next. Empty where it was asked to
/// go meanwhile.
std::optional<World> join_default_world(Member& member);

}  // namespace sullae::elastic
