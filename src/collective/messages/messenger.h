// Messages between any two ranks, for all threads of one rank.
//
// Nobody moves data but those who wait: a thread in run() works for all. Only asynchronous
// operations that do not end at once start a thread of the messenger's own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "collective/messages/delivery.h"

namespace sullae::messages {

struct MessengerOptions {
  int rank = 0;
  int size = 1;
  WaitLimit timeout{};                        ///< of each wait
  std::chrono::milliseconds stall_warning{};  ///< after which a wait is reported; 0: never
};

/// Of one world, for it and all of its process sets. Any thread may call.
class Messenger {
 public:
  Messenger(const MessengerOptions& options, std::vector<std::unique_ptr<Carrier>> carriers);
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  /// Returns when the operation is done. Throws its error: PeerError, TimeoutError, MismatchError
  /// where type or size of the two sides differ, or what is in the context's Failure.
  void run(Operation& operation);
  /// Starts one. True when it is done at once; else its `finished` is called by the messenger's own
  /// thread.
  bool start(const std::shared_ptr<Operation>& operation);
  /// Calls `wanted` once another rank has called want() with this context, perhaps more than once,
  /// perhaps at once; in any thread, which must not call here. Not after leave().
  void watch(const Context& context, std::function<void()> wanted);
  /// Tells the other members of `context`.
  void want(const Context& context);
  /// Where the others reach this rank, and where it reaches `rank`: who has been told needs the
  /// rendezvous no more, which may go before a process set is first used. Empty where it is not
  /// needed for that.
  std::string address() const;
  void learn(int rank, const std::string& address);
  /// Moves what is there, where there are contexts that are watched. For a thread that comes by
  /// often.
  void poll();
  /// No thread comes by any more: what is watched is looked after here.
  void look_after_watched();
  /// Waits a while for the context's sends, ends what is left of its operations with an Error, and
  /// returns when nothing refers to the context any more. What comes for it later is dropped.
  void leave(const Context& context);
  /// Lets go of the carriers. Every context has left.
  void close();

 private:
  using Lock = std::unique_lock<std::mutex>;
  // Takes mutex_ from a thread that moves data without a pause.
  class Turn;

  void work();
  void call_finished(Lock& lock);
  // Another round, after a rest where there is nothing to do; true after a sleep.
  bool go_on(Lock& lock, int& idle, const Operation* own);
  void rest(Lock& lock);
  void give_turn(Lock& lock);
  void check_open(const Context& context) const;
  void leave_rest_to_thread();
  void start_thread();
  bool may_spin();
  void check(Operation& operation);
  std::exception_ptr why_over(Operation& operation);
  void check_peers(const Operation& operation);
  bool refers_to(const Context& context) const;
  void wake() noexcept;

  MessengerOptions options_;
  std::mutex mutex_;                                    // guards all below
  std::condition_variable changed_;                     // background_, ended_ or calling_
  std::vector<std::shared_ptr<Operation>> background_;  // asynchronous ones on their way
  std::vector<std::shared_ptr<Operation>> ended_;       // those to be called back
  std::vector<std::shared_ptr<Operation>> calling_;     // those that are called back now
  std::vector<Operation*> waiting_;                     // those of threads in run()
  int asleep_ = 0;
  std::atomic<int> waiting_turns_{0};  // not guarded: threads that want mutex_
  unsigned rounds_ = 0;
  std::map<std::uint64_t, std::function<void()>> watched_;
  std::atomic<bool> has_watched_{false};  // ever
  bool looks_after_watched_ = false;
  bool left_ = false;  // somebody may wait for the threads in run()
  bool closing_ = false;
  Delivery delivery_;
  std::thread thread_;
};

}  // namespace sullae::messages
