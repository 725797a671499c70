// Rank 0's text for every rank.
#pragma once

#include <string>

#include "sullae/sullae.h"

namespace sullae::train {

/// Rank 0's `text`, of any length, on every rank; what the others give is ignored. Collective.
std::string broadcast_text(std::string text, const World& world);

}  // namespace sullae::train
