#include "parallel/pipeline/simulation.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace sullae::pipeline {
namespace {

class Simulation {
 public:
  Simulation(const std::vector<std::vector<Action>>& actions, int chunks, const Costs& costs)
      : actions_(actions), costs_(costs), ranks_(actions.size()) {
    stages_ = static_cast<int>(actions.size()) * chunks;
  }

  Simulated run() {
    while (advance()) {
    }
    Simulated result;
    double busy = 0;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      result.deadlock |= ranks_[rank].next < actions_[rank].size();
      result.time = std::max(result.time, ranks_[rank].time);
      result.most_alive.push_back(ranks_[rank].most_alive);
      busy += ranks_[rank].busy;
    }
    const double all = result.time * static_cast<double>(ranks_.size());
    result.idle = all > 0 ? 1 - busy / all : 0;
    return result;
  }

 private:
  struct Rank {
    std::size_t next = 0;
    double time = 0;
    double busy = 0;
    int alive = 0;
    int most_alive = 0;
  };

  int stage_of(std::size_t rank, const Action& action) const {
    return action.chunk * static_cast<int>(ranks_.size()) + static_cast<int>(rank);
  }

  // When what `action` needs is there; nothing where somebody has not done it.
  std::optional<double> ready(std::size_t rank, const Action& action) const {
    const int stage = stage_of(rank, action);
    const bool forward = action.work == Work::forward;
    const int from = forward ? stage - 1 : stage + 1;
    double when = 0;
    if (from >= 0 && from < stages_) {
      const auto found = done_.find({action.work, from, action.micro_batch});
      if (found == done_.end()) return std::nullopt;
      when = found->second + costs_.message;
    }
    if (!forward && !done_.contains({Work::forward, stage, action.micro_batch}))
      return std::nullopt;
    return when;
  }

  // Every rank goes on until it has to wait. Whether anybody did anything.
  bool advance() {
    bool moved = false;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      Rank& one = ranks_[rank];
      while (one.next < actions_[rank].size()) {
        const Action& action = actions_[rank][one.next];
        const auto when = ready(rank, action);
        if (!when) break;
        const bool forward = action.work == Work::forward;
        const double takes = forward ? costs_.forward : costs_.backward;
        one.time = std::max(one.time, *when) + takes;
        one.busy += takes;
        one.alive += forward ? 1 : -1;
        one.most_alive = std::max(one.most_alive, one.alive);
        done_[{action.work, stage_of(rank, action), action.micro_batch}] = one.time;
        ++one.next;
        moved = true;
      }
    }
    return moved;
  }

  const std::vector<std::vector<Action>>& actions_;
  Costs costs_;
  std::vector<Rank> ranks_;
  int stages_ = 0;
  std::map<std::tuple<Work, int, int>, double> done_;  // by stage and micro-batch
};

}  // namespace

Simulated simulate(const std::vector<std::vector<Action>>& actions, int chunks,
                   const Costs& costs) {
  return Simulation(actions, chunks, costs).run();
}

}  // namespace sullae::pipeline
