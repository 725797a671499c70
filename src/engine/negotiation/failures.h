// Operations that have failed, for the ranks that have not submitted them yet: they are told when
// they do.
#pragma once

#include <exception>
#include <map>
#include <string>
#include <vector>

#include "engine/negotiation/rank_set.h"

namespace sullae::engine {

/// The same on every rank. Used by one thread at a time.
class Failures {
 public:
  /// Does nothing where every rank knows already. `joined_too`: ranks that have joined submit it as
  /// well.
  void add(const std::string& name, RankSet ranks, std::exception_ptr error, bool joined_too);
  /// What `rank`, which has submitted `name`, has not been told yet; null where there is nothing. A
  /// name may have failed several times: each rank hears of all, the oldest first.
  std::exception_ptr take(const std::string& name, int rank);
  /// A rank that has joined counts as having submitted everything else, so there is nothing left to
  /// tell it.
  void forgive(int rank);

 private:
  struct Failure {
    RankSet ranks;  // that have not been told
    std::exception_ptr error;
    bool joined_too;
  };
  std::map<std::string, std::vector<Failure>> failures_;
};

}  // namespace sullae::engine
