// Who is in an elastic job's world: pure decisions, without a clock, a process or a connection, so
// that any order of events can be tried.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launch/hosts.h"

namespace sullae::elastic {

using Time = std::chrono::steady_clock::time_point;
using Milliseconds = std::chrono::milliseconds;

struct Limits {
  int start = 1;  ///< ranks of the first world
  int min_ranks = 1;
  int max_ranks = 1;
  /// How long a host that lost a worker gets no other: the first time, and doubled each time up to
  /// the last.
  Milliseconds first_cooldown{1000};
  Milliseconds last_cooldown{100000};
  /// Changes of the world after which the job fails; -1: any number.
  int changes = -1;
  /// How long the job waits below `min_ranks`, and for members to come out of a world that has
  /// failed.
  Milliseconds timeout{std::chrono::seconds{600}};
  /// How long it waits for the others once one has come out, which has the state.
  Milliseconds others{std::chrono::seconds{60}};
};

/// A world that is to be: workers by rank.
struct Generation {
  int number = 0;
  std::vector<int> workers;
};

/// How a worker's process ended.
enum class Ending {
  done,    ///< with exit code 0, after the training
  left,    ///< as it was asked to, or asked to be
  killed,  ///< by a signal from outside
  failed,  ///< in any other way
  lost,    ///< with its host: no fault of its own
};

/// What the launcher is to do.
struct Start {
  int worker = 0;
  std::string host;
  int slot = 0;  ///< of the host's
  int slots = 1;
};
/// Ask the process to end.
struct Stop {
  int worker = 0;
};
/// Ask the members to come out of their world after the step.
struct Interrupt {
  Generation generation;
  std::vector<int> leaving;  ///< those of them that will be in no other world
  std::string reason;
};
/// Tell the members that their world has failed.
struct Abandon {
  Generation generation;
  std::string reason;
};
/// Tell the workers to make a world.
struct Form {
  Generation generation;
  std::string reason;
  std::optional<Milliseconds> pause;  ///< since the world before was given up
  bool is_last = false;               ///< those who are in it keep what they have, and go
};
/// Something that users want to know.
struct Note {
  std::string text;
};
/// The job cannot go on.
struct Fail {
  std::string reason;
};
using Action = std::variant<Start, Stop, Interrupt, Abandon, Form, Note, Fail>;

/// A worker is one process. It is started, says that it is ready once it has loaded what it needs,
/// becomes a member of a world with a rank, says that it is ready again when it has come out of
/// that world, and ends. The members of a world before come first in the next one, in their order,
/// so that the oldest is rank 0. Where all members are to go, because their hosts are wanted back,
/// and others come, there is a world of both in between, in which those are given the state. Used
/// by one thread. `now` never goes back.
class Membership {
 public:
  explicit Membership(const Limits& limits) : limits_(limits) {}

  /// Hosts that are not named any more lose their workers, after the step.
  void set_hosts(std::vector<Host> hosts, Time now);
  const std::vector<Host>& hosts() const { return hosts_; }
  /// Before it is named no more: it will be gone soon, so that nobody is waited for much longer for
  /// the sake of its workers.
  void taken_back(const std::string& host) { host_states_[host].is_taken_back = true; }
  /// From the next decision on. With fewer at most, the youngest go after the step.
  void set_limits(int min_ranks, int max_ranks);

  /// A worker waits to become a member. Where it is one, its world has ended for it: `reason` says
  /// why, where that was no interrupt.
  void ready(int worker, const std::string& reason, Time now);
  /// A member wants to go after the step. Of one that waits, and was in a world, this says by a
  /// Stop that it may.
  void leaves(int worker, Time now);
  /// It has come out of its world, as it was to, and ends.
  void left(int worker, Time now);
  void ended(int worker, Ending ending, const std::string& how, Time now);
  /// A host cannot be reached: its workers are lost.
  void lost(const std::string& host, const std::string& reason, Time now);
  /// The job ends, which its processes hear by themselves. Where its world is lost, now or
  /// meanwhile, those who have its state get one more, in which they keep it.
  void close(Time now);
  /// Time has passed.
  void tick(Time now) { advance(now); }
  /// When tick() may change something.
  std::optional<Time> next_tick() const { return wake_; }

  std::vector<Action> take_actions() { return std::exchange(actions_, {}); }

  const Generation& generation() const { return generation_; }
  /// Members say that they are done: nobody comes or goes any more.
  bool finishing() const { return finishing_; }
  /// One of them was lost before, in the same world, so that nobody knows whether what it had to do
  /// is done.
  bool finishes_without_one() const { return finishes_without_one_; }
  /// No process is left.
  bool empty() const { return workers_.empty(); }

 private:
  // Workers that are started together become ready at about the same time: the world changes once
  // for them.
  static constexpr Milliseconds kJoinWindow{1000};
  // Before any world.
  static constexpr int kMostKills = 3;

  enum class Phase { starting, waiting, member };
  /// Of the world of the generation.
  enum class World {
    none,
    running,
    ending,  ///< members have been asked to come out of it
  };
  struct Worker {
    std::string host;
    int slot = 0;
    Phase phase = Phase::starting;
    bool goes = false;      // after the step
    bool wants_to = false;  // as it has said itself
    bool was_told = false;  // that it goes
    bool left = false;      // as it has said itself
    bool stopped = false;
    Time since;
  };
  struct HostState {
    int failures = 0;
    Time usable_from;
    bool is_taken_back = false;
  };

  void advance(Time now);
  void start_workers(Time now);
  void start_one(const Host& host, Time now);
  void release_hosts();
  void release_youngest();
  void change_running_world(Time now);
  bool waits_for_successors(Time now);
  bool has_state_for_successors() const;
  bool is_of_last_world(int id) const;
  void tell_who_goes_too();
  void form(Time now);
  void wait_for_members(Time now);
  void make_world(std::vector<int> workers, Time now);
  void close(const std::string& reason, Time now);
  void form_last(Time now);
  void abandon(const std::string& reason, Time now);
  void note_late(const std::string& what);
  void fail(const std::string& reason);
  void stop(int id);
  void wake_at(Time time) { wake_ = wake_ ? std::min(*wake_, time) : time; }
  int count(Phase phase) const;
  std::vector<int> candidates() const;

  Limits limits_;
  std::vector<Host> hosts_;
  std::map<std::string, HostState> host_states_;
  std::map<int, Worker> workers_;  // by number, the oldest first
  int next_worker_ = 0;
  Generation generation_{.number = -1};
  World world_ = World::none;
  bool finishing_ = false;
  bool lacks_one_ = false;  // of the generation, since its world was made
  bool finishes_without_one_ = false;
  bool failed_ = false;
  std::optional<std::string> closing_;  // why, where there is to be one more world at most
  bool has_had_last_ = false;           // and there has been
  Time closed_{};                       // since when
  std::string reason_;                  // of the change that is under way
  Time abandoned_{};                    // when the last world that failed did
  bool has_told_who_stays_ = false;     // in it
  std::optional<Time> since_;           // since when
  std::optional<Time> below_;           // since when there are too few
  bool has_told_of_slots_ = false;
  std::optional<Time> last_;  // since when all members are to go
  bool hands_over_ = false;   // the next world has some of those who are to go
  std::optional<Time> wake_;
  std::vector<Action> actions_;
};

}  // namespace sullae::elastic
