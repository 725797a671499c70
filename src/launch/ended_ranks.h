// Which ranks of a job with parameter servers have ended, as its launcher says in the job's store.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <thread>

#include "base/environment.h"
#include "transport/store/store.h"

namespace sullae {

/// Where the launcher says which rank was the `number`-th to end, from 0.
std::string ended_rank_key(std::size_t number);

/// The number that `rank`, which is none of `ended`, has among the ranks that are left.
int rank_without(std::span<const int> ended, int rank);

/// Where the ranks of the world without `ended` look for `rank`, in the job's store.
std::string joining_key_without(std::span<const int> ended, int rank);

/// Hears which ranks end, in the order in which they do.
class EndedRanks {
 public:
  /// `take` is called in a thread of its own. Throws TimeoutError where the store that the
  /// environment names cannot be reached.
  EndedRanks(const Environment& environment, std::function<void(int rank)> take);
  ~EndedRanks();
  EndedRanks(const EndedRanks&) = delete;
  EndedRanks& operator=(const EndedRanks&) = delete;

 private:
  void listen();

  Store store_;
  std::function<void(int rank)> take_;
  std::atomic<bool> ending_ = false;
  std::jthread thread_;
};

}  // namespace sullae
