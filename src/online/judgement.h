// Whether what a round has trained is to be published.
#pragma once

#include <string>

#include "online/config.h"
#include "train/fine_tune.h"

namespace sullae::online {

inline double percent(double accuracy) { return 100 * accuracy; }

/// Why not; empty where it makes fewer mistakes on the changed samples (or as few, with a lower
/// loss), and loses no more than the tolerance elsewhere: on samples of earlier rounds, of which it
/// may lose one, and on those and the old test set together.
std::string reason_against(const train::FineTuneResult& result, const OnlineConfig& config);

}  // namespace sullae::online
