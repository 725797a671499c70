// The ranks that are left of a job with parameter servers, which goes on where one ends.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "launch/ended_ranks.h"
#include "sullae/sullae.h"

namespace sullae {

/// The job's n-th world, from 0, has all ranks but the first n that have ended, in their order: who
/// ends is known by the launcher alone, so that all mean the same ones. Used by the thread that
/// trains, in a job whose ranks make no other worlds by init().
class Survivors {
 public:
  /// Null where the job has no launcher that lets the others go on, or `world` is not the job's.
  static std::unique_ptr<Survivors> of_this_job(const World& world);

  /// Throws PeerError where one of the last world's ranks has ended.
  void expect_all_there() const;
  /// Whether one has, or soon is known to have: the others may see it before the launcher says so.
  bool wait_for_end();
  /// The next world, which becomes the one of init(), as the last one ends here. Collective among
  /// the ranks that are left. Throws TimeoutError where one of them does not come within
  /// SULLAE_RENDEZVOUS_TIMEOUT.
  World next();
  /// Why next() was called last: "rank 3 has ended".
  const std::string& reason() const { return reason_; }

 private:
  explicit Survivors(const WorldOptions& job);
  World make(const std::vector<int>& ended);
  void excuse(const std::vector<int>& ended);
  std::vector<int> ended() const;

  WorldOptions job_;
  std::size_t number_ = 0;  // of the last world
  std::string reason_;

  mutable std::mutex mutex_;  // guards ended_
  std::condition_variable changed_;
  std::vector<int> ended_;  // ranks of the job
  EndedRanks heard_;        // last: its thread says so
};

}  // namespace sullae
