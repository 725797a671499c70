// How a round ends, and what goes with it.
#include <fmt/format.h>

#include <limits>
#include <set>
#include <utility>

#include "base/log.h"
#include "online/clock.h"
#include "online/online_model.h"
#include "repository/serving_state.h"
#include "repository/versions.h"

namespace sullae::online {

// Of a version that is there already the record alone is late.
void OnlineModel::fail(const std::string& reason) {
  if (round_.version > 0) {
    end(RoundState::published, "");
  } else {
    end(RoundState::failed, reason);
    problem_of_round_ = reason;
  }
}

void OnlineModel::end(RoundState state, const std::string& reason) {
  round_.state = state;
  round_.reason = reason;
  round_.ended = milliseconds_now();
  rounds_.update(round_);
  const auto& [changed, earlier, test, steps, replayed] = round_.result;
  const auto measured =
      steps == 0 ? std::string()
                 : fmt::format(
                       "; changed samples {:.2f} % -> {:.2f} %, old test samples {:.2f} % "
                       "-> {:.2f} %",
                       percent(changed.before.accuracy), percent(changed.after.accuracy),
                       percent(test.before.accuracy), percent(test.after.accuracy));
  problem_of_round_.clear();
  if (state == RoundState::published) {
    log::info("model {}: version {} is published{}", name_, round_.version, measured);
  } else {
    log::warning("model {}: nothing is published: {}{}", name_, reason, measured);
  }
}

// Versions that a round has published, and no others.
void OnlineModel::remove_old() const {
  if (config_.keep_versions == 0) return;
  const auto state = repository::read_serving_state(directory_);
  const auto there = repository::versions_in(directory_);
  std::set<std::int64_t> kept;  // or removed: a number may have been given again
  for (const Round& round : rounds_.newest(std::numeric_limits<std::int64_t>::max())) {
    if (round.state != RoundState::published || !there.contains(round.version)) continue;
    if (!kept.insert(round.version).second ||
        std::cmp_less_equal(kept.size(), config_.keep_versions))
      continue;
    const bool is_served = round.version == state.serving || round.version == state.canary ||
                           state.loaded.contains(round.version);
    if (!is_served) repository::remove_version(directory_, round.version);
  }
}

}  // namespace sullae::online
