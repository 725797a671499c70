// The negotiated path: named operations from any thread, in any order on any rank.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engine/autotune/autotuner.h"
#include "engine/completion.h"
#include "engine/engine_options.h"
#include "engine/exchange.h"
#include "engine/executor.h"
#include "engine/negotiation/negotiator.h"
#include "engine/prompt_waits.h"
#include "engine/stall_inspector.h"
#include "engine/submission.h"
#include "sullae/communicator.h"

namespace sullae::engine {

/// Takes part in cycles: tell the others what is new here, hear what is new there, run what all
/// have submitted. One thread at a time does, in turn: the engine's own, or one that waits for an
/// operation. Any thread may call.
class Engine final : public Worker, public std::enable_shared_from_this<Engine> {
 public:
  using MakeChannel = std::function<std::unique_ptr<Communicator>()>;

  /// `make_channel`, collective, is called by the engine's thread: what is submitted meanwhile
  /// waits. This rank is number `rank` of `world_ranks`, which name the ranks in messages.
  Engine(MakeChannel make_channel, int rank, Timeline& timeline, std::vector<int> world_ranks,
         const EngineOptions& options);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Returns once the channel is there. Throws why it cannot be made.
  void wait_for_start();
  /// Waits for the start of an engine that has something to do or to tell; some seconds at most.
  void let_start();
  /// Leaves when what was submitted here is done, or after a grace period. What is submitted later
  /// fails.
  void leave();
  void submit(std::unique_ptr<Submission> submission);
  /// The world has failed here: every rank's engine ends, with this rank's reason.
  void fail();
  void work_for(const Completion& completion, Clock::time_point until) override;
  /// Done when every rank has joined; its source is the last one that did. Fails with what ended
  /// the engine. Who joins again before that does so from the end of the first one on.
  std::shared_ptr<Completion> join();

 private:
  using Lock = std::unique_lock<std::mutex>;

  void start();
  void run(int log_rank);
  bool await_turn(Lock& lock);
  void gather(Lock& lock);
  void turn(Lock& lock);
  bool has_news() const;
  bool cycle();
  void take_news();
  void refuse(const std::vector<Refused>& refused);
  template <class Part>
  bool goes_on(const Part& part);
  void inspect();
  void compare_sets(const Decision& decision);
  void give_up(const std::string& name, const std::string& reason);
  void note_agreed(const Decision& decision);
  void change_to(const Settings& settings);
  std::vector<std::shared_ptr<const Request>> to_tune_by(const Decision& decision) const;
  void tune(const std::vector<std::shared_ptr<const Request>>& done);
  void end_with(const std::exception_ptr& error);
  void end_failed(const std::exception_ptr& error);
  void leave_channel(const std::string& reason);
  bool waits() const { return unfinished_ > 0 || joining_; }
  std::chrono::microseconds patience() const;

  MakeChannel make_channel_;
  int rank_;
  int size_;
  int name_;  // this rank's, in messages
  Timeline& timeline_;
  // From here to joining_ used by whoever has the turn.
  EngineOptions options_;                       // of which cycle_time changes
  std::unique_ptr<Communicator> communicator_;  // null before the start and after the end
  std::optional<CycleExchange> exchange_;       // these two from the start on
  std::optional<Executor> executor_;
  Negotiator negotiator_;
  StallInspector stall_inspector_;
  SetComparison set_comparison_;        // of the world's engine
  std::optional<Autotuner> autotuner_;  // of rank 0
  Clock::time_point next_inspection_;
  std::uint64_t idle_cycles_ = 0;
  std::size_t unfinished_ = 0;  // submitted here and not done
  bool said_leaving_ = false;
  std::shared_ptr<Completion> joining_;

  std::mutex leave_mutex_;  // one call of leave() at a time
  std::mutex mutex_;        // guards all below
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Submission>> inbox_;
  bool asleep_ = false;       // somebody waits for submissions, and has not been woken
  bool taken_ = false;        // somebody has the turn
  Clock::time_point turned_;  // the end of the last turn
  PromptWaits prompt_waits_;
  bool over_ = false;  // no turn comes any more
  std::vector<GivenUp> given_up_;
  std::deque<std::shared_ptr<Completion>> joins_;  // that nobody has heard of yet
  bool started_ = false;
  std::exception_ptr ended_;
  bool failed_ = false;
  bool leaving_ = false;
  Clock::time_point leave_by_;

  std::thread thread_;
};

}  // namespace sullae::engine
