#include "engine/negotiation/negotiator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sullae/error.h"

namespace sullae::engine {
namespace {

// What a rank without data can contribute to: a sum, and what others give.
bool takes_zeros(const Request& request) {
  const ReduceOp op = request.signature.op;
  const bool sums = op == ReduceOp::sum || op == ReduceOp::average || op == ReduceOp::adasum;
  switch (request.signature.operation) {
    case Operation::allreduce:
      return sums && request.compression.empty();
    case Operation::reduce:
    case Operation::reducescatter:
      return sums;
    case Operation::allgather:
    case Operation::barrier:
      return true;
    case Operation::broadcast:  // who has joined would not learn what the others do
    case Operation::alltoall:
    case Operation::allocate:
    case Operation::composed:
      return false;
  }
  return false;
}

}  // namespace

Negotiator::Negotiator(int rank, std::vector<int> world_ranks, std::size_t cache_capacity)
    : rank_(rank),
      world_ranks_(std::move(world_ranks)),
      capacity_(cache_capacity),
      joined_(size()) {}

void Negotiator::submit(std::unique_ptr<Submission> submission) {
  const Request& request = submission->request;
  if (joined_.contains(rank_) && !request.joined_too) {
    auto error = std::make_exception_ptr(InputError(fmt::format(
        "{} '{}' was submitted after join(), before every rank had joined: a rank that has "
        "joined only follows the others",
        name(request.signature.operation), request.name)));
    refused_.push_back({std::move(submission), std::move(error)});
    return;
  }
  if (has_mine(request.name)) {
    refused_.push_back(
        {std::move(submission),
         std::make_exception_ptr(InputError(fmt::format(
             "{} '{}' was submitted again before it was done: names must be unique among the "
             "operations in flight",
             name(request.signature.operation), request.name)))});
    return;
  }
  if (const auto number = numbers_.find(request.name); number != numbers_.end()) {
    Entry& cached = *cache_[number->second];
    if (*cached.request == request) {
      next_.cached.push_back(number->second);
      cached.mine = std::move(submission);
      return;
    }
  }
  next_.requests.push_back(request);
  fresh_.try_emplace(request.name, size()).first->second.mine = std::move(submission);
}

std::string Negotiator::announce() {
  std::string bytes = next_.encode();
  next_ = {};
  return bytes;
}

Decision Negotiator::apply(std::span<const std::string> announcements) {
  ++cycle_;
  now_ = std::chrono::steady_clock::now();
  Decision decision{.refused = take_refused()};
  int last_joined = -1;
  for (int rank = 0; rank < size(); ++rank) {
    const auto& bytes = announcements[static_cast<std::size_t>(rank)];
    if (bytes.empty()) continue;
    Announcement announcement = Announcement::decode(bytes);
    if (announcement.leaving && decision.leaving < 0)
      decision.leaving = world_ranks_[static_cast<std::size_t>(rank)];
    if (announcement.failed && !decision.failed)
      decision.failed.emplace(world_ranks_[static_cast<std::size_t>(rank)],
                              std::move(*announcement.failed));
    if (announcement.joined) {
      joined_.insert(rank);
      last_joined = rank;
    }
    if (announcement.settings) decision.settings = std::move(announcement.settings);
    const bool joined = announcement.joined;
    hear(rank, std::move(announcement), decision);
    if (joined) failures_.forgive(rank);
  }
  if (last_joined >= 0) finish_joins(last_joined, decision);
  // Not before: ranks that are heard later in this cycle mean the numbers of before it.
  for (Entry& entry : std::exchange(done_, {})) remember(std::move(entry));
  return decision;
}

void Negotiator::hear(int rank, Announcement announcement, Decision& decision) {
  for (const GivenUp& one : announcement.given_up) give_up_on(one, decision);
  for (Waiting& waiting : announcement.waiting) {
    decision.waiting.emplace_back(world_ranks_[static_cast<std::size_t>(rank)], std::move(waiting));
  }
  for (const auto number : announcement.cached) hear_cached(rank, number, decision);
  for (Request& request : announcement.requests) hear_request(rank, std::move(request), decision);
}

void Negotiator::hear_cached(int rank, std::uint32_t number, Decision& decision) {
  if (number >= cache_.size())
    throw Error(fmt::format("the announcement of rank {} names operation {} of {}",
                            world_ranks_[static_cast<std::size_t>(rank)], number, cache_.size()));
  Entry& entry = *cache_[number];
  const std::string& name = entry.request->name;
  if (tell_failure(name, rank, decision)) return;
  if (const Entry* other = fresh_.empty() ? nullptr : in_flight(name);
      other != nullptr && other != &entry) {
    fail_for(rank, name, mismatch(name, other->first_rank, *other->request, rank, *entry.request),
             decision);
    return;
  }
  note(entry, rank, decision);
}

void Negotiator::hear_request(int rank, Request request, Decision& decision) {
  const std::string name = request.name;
  if (tell_failure(name, rank, decision)) return;
  const Entry* const other = in_flight(name);
  if (other != nullptr && !(*other->request == request)) {
    fail_for(rank, name, mismatch(name, other->first_rank, *other->request, rank, request),
             decision);
    return;
  }
  Entry& entry = fresh_.try_emplace(name, size()).first->second;
  if (entry.submitted.empty()) entry.request = std::make_shared<const Request>(std::move(request));
  note(entry, rank, decision);
}

void Negotiator::note(Entry& entry, int rank, Decision& decision) {
  if (entry.submitted.empty()) {
    entry.first_rank = rank;
    entry.since = now_;
  }
  entry.submitted.insert(rank);
  complete_if_ready(entry, decision);
}

void Negotiator::complete_if_ready(Entry& entry, Decision& decision) {
  const std::shared_ptr<const Request> request = entry.request;
  const RankSet& submitted = entry.submitted;
  if ((request->joined_too ? submitted.size() : submitted.size_with(joined_)) < size()) return;
  const auto root = request->signature.root;
  const bool root_joined = root >= 0 && joined_.contains(root);
  if (submitted.size() < size() && (!takes_zeros(*request) || root_joined)) {
    fail(request->name,
         std::make_exception_ptr(MismatchError(fmt::format(
             "'{}' ({}) cannot go on: ranks {} have joined, and zeros are no contribution to it",
             request->name, request->describe(), fmt::join(names_of(joined_.ranks()), ", ")))),
         decision);
    return;
  }
  decision.agreed.push_back({request, std::move(entry.mine)});
  entry.submitted.clear();
  entry.last_used = cycle_;
  if (fresh_.empty()) return;
  // Not what this rank, which has joined, wants under the name of one that the others have ended.
  if (const auto fresh = fresh_.find(request->name);
      fresh != fresh_.end() && &fresh->second == &entry) {
    done_.push_back(std::move(fresh->second));
    fresh_.erase(fresh);
  }
}

void Negotiator::finish_joins(int last, Decision& decision) {
  for (std::size_t i = 0; i < cache_.size(); ++i) {
    if (!cache_[i]->submitted.empty()) complete_if_ready(*cache_[i], decision);
  }
  std::vector<std::string> names;
  for (const auto& [name, entry] : fresh_) {
    if (!entry.submitted.empty()) names.push_back(name);
  }
  for (const auto& name : names) complete_if_ready(fresh_.at(name), decision);
  if (joined_.size() < size()) return;
  decision.last_joined = world_ranks_[static_cast<std::size_t>(last)];
  joined_.clear();
}

bool Negotiator::tell_failure(const std::string& name, int rank, Decision& decision) {
  const std::exception_ptr error = failures_.take(name, rank);
  if (error == nullptr) return false;
  if (rank == rank_) {
    if (auto mine = take_mine(name)) decision.refused.push_back({std::move(mine), error});
  }
  return true;
}

void Negotiator::fail(const std::string& name, const std::exception_ptr& error,
                      Decision& decision) {
  Entry& entry = *in_flight(name);
  RankSet untold(size());
  for (const int rank : missing(entry)) untold.insert(rank);
  failures_.add(name, std::move(untold), error, entry.request->joined_too);
  const bool told = entry.submitted.contains(rank_);
  entry.submitted.clear();
  if (told) {
    if (auto mine = take_mine(name)) decision.refused.push_back({std::move(mine), error});
  }
  if (const auto fresh = fresh_.find(name); fresh != fresh_.end() && !fresh->second.mine)
    fresh_.erase(fresh);
}

// What `rank` announces does not fit. It is told even where it joins with the same words, and so is
// not missing.
void Negotiator::fail_for(int rank, const std::string& name, const std::exception_ptr& error,
                          Decision& decision) {
  fail(name, error, decision);
  if (tell_failure(name, rank, decision) || rank != rank_) return;
  if (auto mine = take_mine(name)) decision.refused.push_back({std::move(mine), error});
}

std::exception_ptr Negotiator::mismatch(const std::string& name, int rank, const Request& one,
                                        int other_rank, const Request& other) const {
  return std::make_exception_ptr(MismatchError(
      fmt::format("ranks disagree about '{}': rank {} submitted {}, but rank {} submitted {}", name,
                  world_ranks_[static_cast<std::size_t>(rank)], one.describe(),
                  world_ranks_[static_cast<std::size_t>(other_rank)], other.describe())));
}

void Negotiator::give_up_on(const GivenUp& one, Decision& decision) {
  const std::string& name = one.name;
  const Entry* const entry = in_flight(name);
  if (entry == nullptr) return;
  if (!one.reason.empty())
    return fail(name, std::make_exception_ptr(MismatchError(one.reason)), decision);
  fail(name,
       std::make_exception_ptr(TimeoutError(fmt::format(
           "'{}' ({}) was submitted by ranks {}, but not by ranks {} within SULLAE_STALL_TIMEOUT",
           name, entry->request->describe(), fmt::join(names_of(entry->submitted.ranks()), ", "),
           fmt::join(names_of(missing(*entry)), ", ")))),
       decision);
}

std::unique_ptr<Submission> Negotiator::take_mine(const std::string& name) {
  if (const auto fresh = fresh_.find(name); fresh != fresh_.end() && fresh->second.mine) {
    auto mine = std::move(fresh->second.mine);
    if (fresh->second.submitted.empty()) fresh_.erase(fresh);
    return mine;
  }
  const auto number = numbers_.find(name);
  return number == numbers_.end() ? nullptr : std::move(cache_[number->second]->mine);
}

// The entry that some rank has announced. There is at most one for a name.
Negotiator::Entry* Negotiator::in_flight(const std::string& name) {
  if (const auto fresh = fresh_.find(name);
      fresh != fresh_.end() && !fresh->second.submitted.empty()) {
    return &fresh->second;
  }
  const auto number = numbers_.find(name);
  if (number == numbers_.end() || cache_[number->second]->submitted.empty()) return nullptr;
  return cache_[number->second].get();
}

bool Negotiator::has_mine(const std::string& name) const {
  if (const auto fresh = fresh_.find(name); fresh != fresh_.end() && fresh->second.mine)
    return true;
  const auto number = numbers_.find(name);
  return number != numbers_.end() && cache_[number->second]->mine;
}

// Every rank remembers the same under the same number, and forgets the same.
void Negotiator::remember(Entry entry) {
  if (capacity_ == 0 || entry.request->unnamed()) return;
  const std::string& name = entry.request->name;
  if (const auto known = numbers_.find(name); known != numbers_.end()) {
    Entry& old = *cache_[known->second];
    if (old.submitted.empty()) old = std::move(entry);
    return;
  }
  if (cache_.size() < capacity_) {
    numbers_.emplace(name, static_cast<std::uint32_t>(cache_.size()));
    cache_.push_back(std::make_unique<Entry>(std::move(entry)));
    return;
  }
  Entry* oldest = nullptr;
  for (const auto& candidate : cache_) {
    if (!candidate->submitted.empty()) continue;
    if (oldest == nullptr || candidate->last_used < oldest->last_used) oldest = candidate.get();
  }
  if (oldest == nullptr) return;
  const auto place = numbers_.extract(oldest->request->name);
  numbers_.emplace(name, place.mapped());
  *oldest = std::move(entry);
}

std::vector<Unfinished> Negotiator::unfinished() const {
  std::vector<Unfinished> all;
  const auto add = [&](const Entry& entry) {
    if (entry.submitted.empty()) return;
    all.push_back({.request = entry.request.get(),
                   .submitted = names_of(entry.submitted.ranks()),
                   .missing = names_of(missing(entry)),
                   .since = entry.since,
                   .mine = entry.submitted.contains(rank_)});
  };
  for (const auto& entry : cache_) add(*entry);
  for (const auto& [name, entry] : fresh_) add(entry);
  std::ranges::stable_sort(all, {}, &Unfinished::since);
  return all;
}

std::vector<std::unique_ptr<Submission>> Negotiator::take_all() {
  std::vector<std::unique_ptr<Submission>> all;
  for (Refused& refused : refused_) all.push_back(std::move(refused.mine));
  refused_.clear();
  for (const auto& entry : cache_) {
    if (entry->mine) all.push_back(std::move(entry->mine));
  }
  for (auto& [name, entry] : fresh_) {
    if (entry.mine) all.push_back(std::move(entry.mine));
  }
  fresh_.clear();
  return all;
}

// Those that the entry waits for.
std::vector<int> Negotiator::missing(const Entry& entry) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    const bool joined = !entry.request->joined_too && joined_.contains(rank);
    if (!entry.submitted.contains(rank) && !joined) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<int> Negotiator::names_of(std::vector<int> ranks) const {
  for (int& rank : ranks) rank = world_ranks_[static_cast<std::size_t>(rank)];
  return ranks;
}

}  // namespace sullae::engine
