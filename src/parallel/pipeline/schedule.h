// Which rank of a pipeline does what, and after what.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sullae::pipeline {

enum class Schedule : std::uint8_t {
  gpipe,        ///< all forwards, then all backwards (Y. Huang et al., 2019)
  one_f_one_b,  ///< each backward as soon as it can be, so that few micro-batches are alive (D.
                ///< Narayanan et al., 2019)
  interleaved   ///< the same with several stages a rank, and a bubble that is as many times smaller
                ///< (D. Narayanan et al., 2021)
};

/// Throws InputError for a name that is none of "gpipe", "1f1b", "interleaved".
Schedule parse_schedule(std::string_view name);

enum class Work : std::uint8_t { forward, backward };

/// A stage's work on a micro-batch. Stages are numbered along the model; stage s is rank s % ranks'
/// chunk s / ranks.
struct Action {
  Work work = Work::forward;
  int chunk = 0;
  int micro_batch = 0;
  auto operator<=>(const Action&) const = default;
};

/// What `rank` of `ranks` does in a step, in order. Messages are not in it: an action takes what
/// comes from the stage before (after, for backward), and sends its result on as soon as it is
/// done. Any number of micro-batches is free of deadlock with messages that wait at their receiver;
/// `chunks` is 1 for all but interleaved.
std::vector<Action> actions_of(Schedule schedule, int ranks, int rank, int micro_batches,
                               int chunks);

/// The forwards alone.
std::vector<Action> forward_actions(int micro_batches, int chunks);

}  // namespace sullae::pipeline
