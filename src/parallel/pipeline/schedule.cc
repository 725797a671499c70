#include "parallel/pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "sullae/error.h"

namespace sullae::pipeline {
namespace {

// Micro-batches in groups that go through all chunks together: at least one a rank where there are
// as many, so that nobody waits for what has not come round yet, and of nearly the same size.
std::vector<int> group_sizes(int ranks, int micro_batches) {
  const int groups = std::max(1, micro_batches / ranks);
  std::vector<int> sizes;
  for (int group = 0; group < groups; ++group)
    sizes.push_back(micro_batches / groups + (group < micro_batches % groups ? 1 : 0));
  return sizes;
}

std::vector<Action> in_order(Work work, const std::vector<int>& groups, int chunks) {
  std::vector<Action> actions;
  int first = 0;
  for (const int size : groups) {
    for (int i = 0; i < chunks; ++i) {
      const int chunk = work == Work::forward ? i : chunks - 1 - i;
      for (int micro_batch = first; micro_batch < first + size; ++micro_batch)
        actions.push_back({work, chunk, micro_batch});
    }
    first += size;
  }
  return actions;
}

// Forwards until this rank's first backward can come, then one of each in turn.
std::vector<Action> in_turn(const std::vector<Action>& forwards,
                            const std::vector<Action>& backwards, std::size_t ahead) {
  std::vector<Action> actions;
  for (std::size_t i = 0; i < forwards.size() + std::min(ahead, forwards.size()); ++i) {
    if (i < forwards.size()) actions.push_back(forwards[i]);
    if (i >= ahead) actions.push_back(backwards[i - ahead]);
  }
  return actions;
}

}  // namespace

Schedule parse_schedule(std::string_view name) {
  if (name == "gpipe") return Schedule::gpipe;
  if (name == "1f1b") return Schedule::one_f_one_b;
  if (name == "interleaved") return Schedule::interleaved;
  throw InputError(
      fmt::format("pipeline schedule '{}': expected gpipe, 1f1b or interleaved", name));
}

std::vector<Action> actions_of(Schedule schedule, int ranks, int rank, int micro_batches,
                               int chunks) {
  const std::vector<int> groups = group_sizes(ranks, micro_batches);
  const auto forwards = in_order(Work::forward, groups, chunks);
  const auto backwards = in_order(Work::backward, groups, chunks);
  const int to_the_last = ranks - 1 - rank;
  // Interleaved, the first backward comes after the others' and after all chunks of a group but
  // one.
  int ahead = to_the_last;
  if (chunks > 1) ahead = 2 * to_the_last + (chunks - 1) * groups.front();
  if (schedule == Schedule::gpipe) ahead = static_cast<int>(forwards.size());
  ahead = std::min(ahead, static_cast<int>(forwards.size()));
  return in_turn(forwards, backwards, static_cast<std::size_t>(ahead));
}

std::vector<Action> forward_actions(int micro_batches, int chunks) {
  return in_order(Work::forward, {micro_batches}, chunks);
}

}  // namespace sullae::pipeline
