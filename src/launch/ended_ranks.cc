#include "launch/ended_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/deadline.h"
#include "base/log.h"
#include "sullae/error.h"
#include "transport/joining_keys.h"
#include "transport/settings.h"
#include "transport/store/job_store.h"

namespace sullae {
namespace {

// Longer than any job.
constexpr std::chrono::hours kEver{24 * 366};

}  // namespace

std::string ended_rank_key(std::size_t number) { return fmt::format("ended/{}", number); }

int rank_without(std::span<const int> ended, int rank) {
  return rank - static_cast<int>(std::ranges::count_if(ended, [&](int one) { return one < rank; }));
}

std::string joining_key_without(std::span<const int> ended, int rank) {
  return fmt::format("{}/{}", ended.size(), joining_key(rank_without(ended, rank)));
}

EndedRanks::EndedRanks(const Environment& environment, std::function<void(int rank)> take)
    : store_(job_store(environment, Deadline(RendezvousSettings::from(environment).timeout))),
      take_(std::move(take)),
      thread_([this] { listen(); }) {}

EndedRanks::~EndedRanks() {
  ending_ = true;
  store_.cancel();
}

void EndedRanks::listen() {
  try {
    for (std::size_t number = 0;; ++number) {
      const std::string rank = store_.get(ended_rank_key(number), {kEver, "the end of the job"});
      take_(static_cast<int>(
          parse_integer(rank, "a rank that has ended", 0, std::numeric_limits<int>::max())));
    }
  } catch (const Error& error) {  // of the store, when this ends, or the job does
    if (!ending_) log::warning("the job's launcher is not heard any more: {}", error.what());
  }
}

}  // namespace sullae
