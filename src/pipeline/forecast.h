// When a run will be over, by what its steps took before.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "pipeline/definition.h"
#include "pipeline/record.h"

namespace sullae::pipeline {

/// So many runs are known well enough.
inline constexpr std::size_t kRunsLookedAt = 50;

/// Seconds that steps usually take: the median of the last ten times that they were done.
using Usual = std::map<std::string, double>;
/// `runs`: the newest first.
Usual usual_of(std::span<const RunRecord> runs);

struct Forecast {
  Time end = 0;
  /// The step that ends last.
  std::string last;
};
/// Of a run as it is `now`: what is running takes as long as usual, and what has taken longer is
/// about to end; a step that was never done takes no time.
Forecast forecast(const Pipeline& pipeline, const RunRecord& run, const Usual& usual, Time now);

/// What to say of a run that will not be over by its deadline, or is not; nothing of others.
std::optional<std::string> lateness(const Pipeline& pipeline, const RunRecord& run,
                                    const Usual& usual, Time now);

}  // namespace sullae::pipeline
