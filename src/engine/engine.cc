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

// How long a rank that leaves waits for what it has submitted.
constexpr std::chrono::seconds kLeaveLimit{5};
// Cycles come more rarely where this rank waits for nothing, and after so many in which nobody said
// anything.
constexpr std::uint64_t kIdleCycles = 1000;
constexpr std::chrono::microseconds kIdlePatience{10000};
constexpr std::chrono::microseconds kGatherPeriod{50};

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
    : make_channel_(std::move(make_channel)),
      rank_(rank),
      size_(static_cast<int>(world_ranks.size())),
      name_(world_ranks[static_cast<std::size_t>(rank)]),
      timeline_(timeline),
      options_(options),
      negotiator_(rank, world_ranks, options.cache_capacity),
      stall_inspector_(options.stall_warning, options.stall_timeout) {
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
  executor_.emplace(*communicator_, timeline_, options_.fusion_threshold,
                    [this](const std::exception_ptr& error) { options_.failure->set(error); });
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
  if (inbox_.empty() && !failed_ && joins_.empty()) return;
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
  Lock lock(mutex_);
  if (ended_) {
    lock.unlock();
    submission->completion->finish(ended_);  // does not change any more
    return;
  }
  submission->completion->let_work(weak_from_this());
  inbox_.push_back(std::move(submission));
  const bool needed = prompt_waits_.submitted(/*alone=*/inbox_.size() == 1);
  // Once, however many submissions the engine's thread sleeps through; always where somebody who
  // waits has the turn and sleeps.
  const bool wakes = asleep_ && (needed || taken_);
  if (wakes) asleep_ = false;
  // Not under the mutex, which the engine would only wait for.
  lock.unlock();
  if (wakes) changed_.notify_all();
}

void Engine::fail() {
  const std::lock_guard lock(mutex_);
  failed_ = true;
  changed_.notify_all();
}

std::shared_ptr<Completion> Engine::join() {
  const std::lock_guard lock(mutex_);
  auto join = std::make_shared<Completion>();
  if (ended_) {
    join->finish(ended_);
    return join;
  }
  joins_.push_back(join);
  changed_.notify_all();
  return join;
}

void Engine::run(int log_rank) {
  ::pthread_setname_np(::pthread_self(), "sullae-engine");
  in_own_thread = true;
  log::set_rank(log_rank);
  const bool begun = goes_on([this] {
    start();
    return true;
  });
  Lock lock(mutex_);
  if (!begun) over_ = true;
  turned_ = Clock::now();
  while (await_turn(lock)) {
    taken_ = true;
    turn(lock);
    taken_ = false;
  }
  lock.unlock();
  if (options_.at_end) options_.at_end();
}

// In the engine's thread, with `lock` held; false when no turn comes any more. It has one when
// there is news, or when the others have waited long enough for a cycle.
bool Engine::await_turn(Lock& lock) {
  while (!over_) {
    if (!taken_ && has_news()) {
      gather(lock);
      if (taken_ || over_) continue;
      prompt_waits_.forget();
      return true;
    }
    const auto now = Clock::now();
    auto until = taken_ ? now + kIdlePatience : turned_ + patience();
    if (!taken_ && now >= until) return true;
    const bool looks = !taken_ && prompt_waits_.expected();
    if (looks) until = std::min(until, now + PromptWaits::kLookPeriod);
    asleep_ = true;
    const bool waited = changed_.wait_until(lock, until) == std::cv_status::timeout;
    const bool calm = waited && !taken_ && turned_ <= now && inbox_.empty();
    if (looks && calm) prompt_waits_.forget();
  }
  return false;
}

// What is submitted in one go runs together: when no more comes, or when somebody waits, who takes
// the turn.
void Engine::gather(Lock& lock) {
  const auto until = Clock::now() + options_.cycle_time;
  std::size_t seen = 0;
  while (!taken_ && inbox_.size() > seen && Clock::now() < until) {
    seen = inbox_.size();
    changed_.wait_for(lock, kGatherPeriod);
  }
}

// Who waits runs the cycles itself: two wakenings of a thread cost more than a small operation.
void Engine::work_for(const Completion& completion, Clock::time_point until) {
  Lock lock(mutex_);
  if (taken_ || !started_) return;
  if (inbox_.size() == 1 && prompt_waits_.waited()) changed_.notify_all();
  const LentThread lent;
  taken_ = true;
  while (!over_ && !completion.done() && Clock::now() < until) {
    if (!has_news()) {
      asleep_ = true;
      changed_.wait_for(lock, std::min(patience(), kIdlePatience));
    }
    turn(lock);
  }
  taken_ = false;
  if (over_ || waits() || has_news()) changed_.notify_all();
}

// One cycle, with taken_ set. `lock` is held before and after it.
void Engine::turn(Lock& lock) {
  lock.unlock();
  const bool more = goes_on([&] {
    if (!cycle()) return false;
    if (options_.each_cycle) options_.each_cycle();
    return true;
  });
  lock.lock();
  if (!more) over_ = true;
  turned_ = Clock::now();
}

// What `part` says. What it throws ends the engine.
template <class Part>
bool Engine::goes_on(const Part& part) {
  try {
    return part();
  } catch (...) {  // a user's compression may throw anything
    const auto error = std::current_exception();
    end_failed(error);
    leave_channel(what_of(error));
    return false;
  }
}

// The other ranks' engines wait for this one in the middle of a cycle: they are told why, and that
// it is gone.
void Engine::leave_channel(const std::string& reason) {
  if (!communicator_) return;
  try {
    communicator_->fail(fmt::format("rank {} cannot go on: {}", name_, reason), name_);
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

// With mutex_ held, where nobody else has the turn.
bool Engine::has_news() const {
  return !inbox_.empty() || !given_up_.empty() || (!joins_.empty() && !joining_) || failed_ ||
         (leaving_ && !said_leaving_ && unfinished_ == 0);
}

void Engine::take_news() {
  std::vector<std::unique_ptr<Submission>> submissions;
  {
    const std::lock_guard lock(mutex_);
    submissions.swap(inbox_);
    if (failed_) negotiator_.fail(what_of(options_.failure->first()));
    for (GivenUp& one : given_up_) negotiator_.give_up(std::move(one));
    given_up_.clear();
    if (!joins_.empty() && !joining_) {
      joining_ = std::move(joins_.front());
      joins_.pop_front();
      negotiator_.join();
    }
    const bool done = !waits() && submissions.empty();
    if (leaving_ && !said_leaving_ && (done || Clock::now() >= leave_by_)) {
      said_leaving_ = true;
      negotiator_.leave();
    }
  }
  unfinished_ += submissions.size();
  for (auto& submission : submissions) negotiator_.submit(std::move(submission));
}

std::chrono::microseconds Engine::patience() const {
  if (size_ == 1) return std::chrono::hours{1};  // nobody else waits
  return waits() && idle_cycles_ < kIdleCycles ? options_.cycle_time
                                               : std::max(options_.cycle_time, kIdlePatience);
}

// Whatever waits here, or comes later, ends with the error.
void Engine::end_with(const std::exception_ptr& error) {
  auto waiting = negotiator_.take_all();
  std::deque<std::shared_ptr<Completion>> joins;
  {
    const std::lock_guard lock(mutex_);
    ended_ = error;
    changed_.notify_all();
    for (auto& submission : inbox_) waiting.push_back(std::move(submission));
    inbox_.clear();
    joins.swap(joins_);
  }
  for (const auto& submission : waiting) submission->completion->finish(error);
  if (joining_) joining_->finish(error);
  for (const auto& join : joins) join->finish(error);
}

}  // namespace sullae::engine
