// Decides what runs next, the same on every rank.
//
// There is no coordinator. In each cycle every rank tells all others what it has submitted since
// the last one, and every rank draws the same conclusions from the same announcements: which
// operations all ranks have submitted, in which order they run, which do not fit together, and
// which ranks are missing. A steady state costs one small allgather a cycle, since what was agreed
// once is in every rank's cache under the same number.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/negotiation/announcement.h"
#include "engine/negotiation/failures.h"
#include "engine/negotiation/rank_set.h"
#include "engine/submission.h"

namespace sullae::engine {

/// An operation that every rank runs now.
struct Agreed {
  std::shared_ptr<const Request> request;
  /// Null on a rank that has joined.
  std::unique_ptr<Submission> mine;
};

struct Refused {
  std::unique_ptr<Submission> mine;
  std::exception_ptr error;
};

struct Decision {
  std::vector<Agreed> agreed;                    ///< the same on every rank, in this order
  std::vector<Refused> refused;                  ///< of this rank
  std::vector<std::pair<int, Waiting>> waiting;  ///< by world rank
  int last_joined = -1;                          ///< the last rank to join, when all have
  std::optional<Settings> settings;              ///< to change to, before anything runs
  int leaving = -1;                              ///< the first rank that leaves, if any does
  /// The first rank that cannot go on, if any, and why: nothing runs any more.
  std::optional<std::pair<int, std::string>> failed;
};

/// An operation that some ranks have submitted and others have not.
struct Unfinished {
  const Request* request = nullptr;
  std::vector<int> submitted;
  std::vector<int> missing;
  std::chrono::steady_clock::time_point since;
  bool mine = false;  ///< this rank has submitted it
};

/// Used by one thread at a time.
class Negotiator {
 public:
  /// `world_ranks` are the names of the ranks in messages. At most `cache_capacity` operations are
  /// remembered.
  Negotiator(int rank, std::vector<int> world_ranks, std::size_t cache_capacity);

  /// These go into the next announcement.
  void submit(std::unique_ptr<Submission> submission);
  void join() { next_.joined = true; }
  void leave() { next_.leaving = true; }
  void fail(std::string reason) { next_.failed = std::move(reason); }
  void change(Settings settings) { next_.settings = std::move(settings); }
  void give_up(GivenUp one) { next_.given_up.push_back(std::move(one)); }
  void tell(std::vector<Waiting> waiting) { next_.waiting = std::move(waiting); }

  /// What to tell the others; call apply() with everybody's, in the order of ranks, before the
  /// next.
  std::string announce();
  Decision apply(std::span<const std::string> announcements);
  /// What this rank's submissions were refused for before anybody heard of them. Else the next
  /// apply() hands them out.
  std::vector<Refused> take_refused() { return std::exchange(refused_, {}); }

  /// Everything that waits, oldest first.
  std::vector<Unfinished> unfinished() const;
  /// Ends everything that waits on this rank.
  std::vector<std::unique_ptr<Submission>> take_all();

 private:
  struct Entry {
    explicit Entry(int size) : submitted(size) {}
    std::shared_ptr<const Request> request;
    RankSet submitted;
    int first_rank = -1;
    std::chrono::steady_clock::time_point since;
    std::unique_ptr<Submission> mine;
    std::uint64_t last_used = 0;  // the cycle, of one in the cache
  };

  int size() const { return static_cast<int>(world_ranks_.size()); }
  void hear(int rank, Announcement announcement, Decision& decision);
  void hear_cached(int rank, std::uint32_t number, Decision& decision);
  void hear_request(int rank, Request request, Decision& decision);
  void note(Entry& entry, int rank, Decision& decision);
  void complete_if_ready(Entry& entry, Decision& decision);
  void finish_joins(int last, Decision& decision);
  bool tell_failure(const std::string& name, int rank, Decision& decision);
  void fail(const std::string& name, const std::exception_ptr& error, Decision& decision);
  void fail_for(int rank, const std::string& name, const std::exception_ptr& error,
                Decision& decision);
  std::exception_ptr mismatch(const std::string& name, int rank, const Request& one, int other_rank,
                              const Request& other) const;
  void give_up_on(const GivenUp& one, Decision& decision);
  std::unique_ptr<Submission> take_mine(const std::string& name);
  Entry* in_flight(const std::string& name);
  std::vector<int> missing(const Entry& entry) const;
  std::vector<int> names_of(std::vector<int> ranks) const;
  bool has_mine(const std::string& name) const;
  void remember(Entry entry);

  int rank_;
  std::vector<int> world_ranks_;
  std::size_t capacity_;
  std::uint64_t cycle_ = 0;
  std::chrono::steady_clock::time_point now_;  // of the cycle
  Announcement next_;
  std::vector<Refused> refused_;  // before they were announced
  std::vector<std::unique_ptr<Entry>> cache_;
  std::unordered_map<std::string, std::uint32_t> numbers_;  // of what is in the cache
  std::map<std::string, Entry> fresh_;  // what is not, ordered alike on all ranks
  std::vector<Entry> done_;             // in this cycle, to be remembered at its end
  Failures failures_;
  RankSet joined_;
};

}  // namespace sullae::engine
