// What a cycle does, by whoever has the turn.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "sullae/error.h"

namespace sullae::engine {
namespace {

constexpr std::chrono::milliseconds kInspectionPeriod{100};
// An operation that waits for so long is compared with those of other process sets.
constexpr std::chrono::seconds kLongWait{1};

}  // namespace

// False when a rank leaves.
bool Engine::cycle() {
  take_news();
  if (Clock::now() >= next_inspection_) inspect();
  const auto& said = exchange_->run(negotiator_.announce());
  const bool idle = std::ranges::all_of(said, &std::string::empty);
  idle_cycles_ = idle ? idle_cycles_ + 1 : 0;
  if (idle) {
    // Nobody heard of these, so nobody answers.
    refuse(negotiator_.take_refused());
    return true;
  }

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
  refuse(decision.refused);
  note_agreed(decision);
  compare_sets(decision);
  if (decision.settings) change_to(*decision.settings);
  const auto measured = to_tune_by(decision);
  executor_->run(std::move(decision.agreed));
  tune(measured);
  if (decision.last_joined >= 0) {
    if (options_.all_joined) options_.all_joined();
    joining_->set_source(decision.last_joined);
    joining_->finish(nullptr);
    joining_.reset();
  }
  if (decision.leaving < 0) return true;
  end_with(std::make_exception_ptr(PeerError(
      decision.leaving, said_leaving_
                            ? "this rank has left the world"
                            : fmt::format("rank {} has left the world", decision.leaving))));
  return false;
}

void Engine::refuse(const std::vector<Refused>& refused) {
  for (const Refused& one : refused) {
    one.mine->completion->finish(one.error);
    --unfinished_;
  }
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

// Of the world's engine: what the ranks have said is the same everywhere, so each process fails
// what is in its hands.
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
  changed_.notify_all();
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

}  // namespace sullae::engine
