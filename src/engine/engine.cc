#include "engine/engine.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/own_thread.h"
#include "sullae/error.h"

namespace sullae::engine {
namespace {

using Clock = std::chrono::steady_clock;

// How long a rank that leaves waits for what it has submitted.
constexpr std::chrono::seconds kLeaveLimit{5};
constexpr std::chrono::milliseconds kInspectionPeriod{100};
// An operation that waits for so long is compared with those of other process sets.
constexpr std::chrono::seconds kLongWait{1};
// Cycles come more rarely where this rank waits for nothing, and after so many in which nobody said anything.
constexpr std::uint64_t kIdleCycles = 1000;
constexpr std::chrono::microseconds kIdlePatience{10000};

std::string what_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {  // a user's operation may throw anything
    return "an exception that is no std::exception";
  }
}

}  // namespace

Engine::Engine(MakeChannel make_channel, int rank, Timeline& timeline, std::vector<int> world_ranks,
               const EngineOptions& options)
    : options_(options),
      make_channel_(std::move(make_channel)),
      rank_(rank),
      size_(static_cast<int>(world_ranks.size())),
      timeline_(timeline),
      negotiator_(rank, world_ranks, options.cache_capacity),
      stall_inspector_(options.stall_warning, options.stall_timeout),
      name_(world_ranks[static_cast<std::size_t>(rank)]) {
  if (options_.set_watch) {
    SetWatch::GiveUp by_first_rank;
    if (rank_ == 0) {
      by_first_rank = [this](const std::string& name, const std::string& reason) {
        give_up(name, reason);
      };
    }
    options_.set_watch->add(options_.set, world_ranks, std::move(by_first_rank));
  }
  thread_ = std::thread([this] { run(size_ > 1 ? name_ : -1); });
}

void Engine::start() {
  communicator_ = make_channel_();
  exchange_.emplace(*communicator_);
  executor_.emplace(*communicator_, timeline_, options_.fusion_threshold);
  if (options_.autotune.on && rank_ == 0 && size_ > 1) {
    const auto algorithms = communicator_->allreduce_algorithms();
    autotuner_.emplace(candidates_around({.fusion_threshold = options_.fusion_threshold,
                                          .cycle_time = options_.cycle_time,
                                          .allreduce_algorithm = algorithms.front()},
                                         algorithms),
                       options_.autotune);
  }
  const std::lock_guard lock(mutex_);
  started_ = true;
  changed_.notify_all();
}

void Engine::wait_for_start() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return started_ || ended_; });
  if (!started_) std::rethrow_exception(ended_);
}

void Engine::let_start() {
  std::unique_lock lock(mutex_);
  if (inbox_.empty() && !failed_ && !join_) return;
  changed_.wait_for(lock, kLeaveLimit, [this] { return started_ || ended_; });
}

Engine::~Engine() { leave(); }

void Engine::leave() {
  const std::lock_guard one(leave_mutex_);
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
    leave_by_ = Clock::now() + kLeaveLimit;
    changed_.notify_all();
  }
  thread_.join();
  if (options_.set_watch) options_.set_watch->remove(options_.set);
  communicator_.reset();
}

void Engine::submit(std::unique_ptr<Submission> submission) {
  std::unique_lock lock(mutex_);
  if (ended_) {
    lock.unlock();
    submission->completion->finish(ended_);  // does not change any more
    return;
  }
  inbox_.push_back(std::move(submission));
  const bool asleep = std::exchange(asleep_, false);
  // Not under the mutex, which the engine would only wait for; and once, however many submissions it sleeps through.
  lock.unlock();
  if (asleep) changed_.notify_all();
}

void Engine::fail() {
  const std::lock_guard lock(mutex_);
  failed_ = true;
  changed_.notify_all();
}

int Engine::join() {
  std::shared_ptr<Join> join;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) std::rethrow_exception(ended_);
    if (!join_) join_ = std::make_shared<Join>();
    join = join_;
    changed_.notify_one();
  }
  join->completion.wait();
  return join->last;
}

void Engine::run(int log_rank) {
  ::pthread_setname_np(::pthread_self(), "sullae-engine");
  in_own_thread = true;
  log::set_rank(log_rank);
  try {
    start();
    while (cycle()) {
      if (options_.each_cycle) options_.each_cycle();
    }
  } catch (...) {  // a user's compression may throw anything
    const auto error = std::current_exception();
    end_failed(error);
    leave_channel(what_of(error));
  }
  if (options_.at_end) options_.at_end();
}

// The other ranks' engines wait for this one in the middle of a cycle: they are told why, and that it is gone.
void Engine::leave_channel(const std::string& reason) {
  if (!communicator_) return;
  try {
    communicator_->fail(fmt::format("rank {} cannot go on: {}", name_, reason));
  } catch (const std::exception& error) {
    // They are gone themselves, which is why this one ends.
    log::info("the other ranks' engines were not told: {}", error.what());
  }
  communicator_.reset();
}

// All channels of the world end here with the first error.
void Engine::end_failed(const std::exception_ptr& error) {
  options_.failure->set(error);
  end_with(options_.failure->first());
}

bool Engine::cycle() {
  take_inbox();
  if (Clock::now() >= next_inspection_) inspect();
  const auto& said = exchange_->run(negotiator_.announce());
  const bool idle = std::ranges::all_of(said, &std::string::empty);
  idle_cycles_ = idle ? idle_cycles_ + 1 : 0;
  if (idle) return true;

  Decision decision = negotiator_.apply(said);
  if (decision.failed) {
    const auto& [rank, reason] = *decision.failed;
    end_failed(std::make_exception_ptr(
        PeerError(rank, fmt::format("rank {} cannot go on: {}", rank, reason))));
    // What was agreed or refused in this very cycle is in no other hands.
    for (const Refused& one : decision.refused) one.mine->completion->finish(one.error);
    for (const Agreed& one : decision.agreed) {
      if (one.mine) one.mine->completion->finish(options_.failure->first());
    }
    return false;
  }
  for (Refused& refused : decision.refused) {
    refused.mine->completion->finish(refused.error);
    --unfinished_;
  }
  note_agreed(decision);
  compare_sets(decision);
  if (decision.settings) change_to(*decision.settings);
  const auto measured = to_tune_by(decision);
  executor_->run(std::move(decision.agreed));
  tune(measured);
  if (decision.last_joined >= 0) {
    joining_->last = decision.last_joined;
    joining_->completion.finish(nullptr);
    joining_.reset();
  }
  if (decision.leaving < 0) return true;
  end_with(std::make_exception_ptr(PeerError(
      decision.leaving, said_leaving_
                            ? "this rank has left the world"
                            : fmt::format("rank {} has left the world", decision.leaving))));
  return false;
}

void Engine::note_agreed(const Decision& decision) {
  const auto now = Clock::now();
  for (const Agreed& one : decision.agreed) {
    if (!one.mine) continue;
    --unfinished_;
    if (one.mine->submitted)
      timeline_.record(
          {Lane::negotiated, "NEGOTIATE", one.request->name, *one.mine->submitted, now});
  }
}

void Engine::inspect() {
  next_inspection_ = Clock::now() + kInspectionPeriod;
  const bool compares = options_.set_watch && options_.set_watch->active();
  if (rank_ != 0 && !compares) return;
  const auto unfinished = negotiator_.unfinished();
  if (rank_ == 0) {
    for (auto& name : stall_inspector_.inspect(unfinished))
      negotiator_.give_up({std::move(name), {}});
  }
  if (!compares) return;
  std::vector<std::string> long_waits;
  for (const Unfinished& one : unfinished) {
    if (one.mine && Clock::now() - one.since >= kLongWait) long_waits.push_back(one.request->name);
  }
  options_.set_watch->report(options_.set, long_waits);
  if (options_.set.empty()) negotiator_.tell(options_.set_watch->take_changes());
}

// Of the world's engine: what the ranks have said is the same everywhere, so each process fails what
// is in its hands.
void Engine::compare_sets(const Decision& decision) {
  for (const auto& [rank, waiting] : decision.waiting) {
    const auto conflict = set_comparison_.hear(rank, waiting);
    if (!conflict) continue;
    for (const Waiting& side : {conflict->one, conflict->other})
      options_.set_watch->give_up(side.set, side.name, conflict->reason);
  }
}

void Engine::give_up(const std::string& name, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  given_up_.push_back({name, reason});
  changed_.notify_one();
}

// The same on every rank in the same cycle.
void Engine::change_to(const Settings& settings) {
  executor_->set_fusion_threshold(settings.fusion_threshold);
  communicator_->set_allreduce_algorithm(settings.allreduce_algorithm);
  options_.cycle_time = settings.cycle_time;
}

std::vector<std::shared_ptr<const Request>> Engine::to_tune_by(const Decision& decision) const {
  std::vector<std::shared_ptr<const Request>> requests;
  if (!autotuner_ || autotuner_->done()) return requests;
  for (const Agreed& one : decision.agreed) requests.push_back(one.request);
  return requests;
}

void Engine::tune(const std::vector<std::shared_ptr<const Request>>& done) {
  const auto now = Clock::now();
  for (const auto& request : done) {
    if (auto next = autotuner_->note(*request, now)) negotiator_.change(std::move(*next));
  }
}

// Waits a moment for something to say, and takes it.
void Engine::take_inbox() {
  std::vector<std::unique_ptr<Submission>> taken;
  {
    std::unique_lock lock(mutex_);
    asleep_ = inbox_.empty();
    changed_.wait_for(lock, patience(), [this] {
      return !inbox_.empty() || !given_up_.empty() || join_ || failed_ ||
             (leaving_ && !said_leaving_ && unfinished_ == 0);
    });
    asleep_ = false;
    taken.swap(inbox_);
    if (failed_) negotiator_.fail(what_of(options_.failure->first()));
    for (GivenUp& one : given_up_) negotiator_.give_up(std::move(one));
    given_up_.clear();
    if (join_ && !joining_) {
      joining_ = std::move(join_);
      join_.reset();
      negotiator_.join();
    }
    const bool done = unfinished_ == 0 && taken.empty() && !joining_;
    if (leaving_ && !said_leaving_ && (done || Clock::now() >= leave_by_)) {
      said_leaving_ = true;
      negotiator_.leave();
    }
  }
  unfinished_ += taken.size();
  for (auto& submission : taken) negotiator_.submit(std::move(submission));
}

std::chrono::microseconds Engine::patience() const {
  if (size_ == 1) return std::chrono::hours{1};  // nobody else waits
  const bool waits = unfinished_ > 0 || joining_;
  return waits && idle_cycles_ < kIdleCycles ? options_.cycle_time
                                             : std::max(options_.cycle_time, kIdlePatience);
}

// Whatever waits here, or comes later, ends with the error.
void Engine::end_with(const std::exception_ptr& error) {
  auto waiting = negotiator_.take_all();
  std::shared_ptr<Join> join;
  {
    const std::lock_guard lock(mutex_);
    ended_ = error;
    changed_.notify_all();
    for (auto& submission : inbox_) waiting.push_back(std::move(submission));
    inbox_.clear();
    join = std::move(join_);
  }
  for (const auto& submission : waiting) submission->completion->finish(error);
  for (const auto& one : {joining_, join}) {
    if (one) one->completion.finish(error);
  }
}

}  // namespace sullae::engine
