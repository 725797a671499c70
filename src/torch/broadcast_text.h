// A text of one rank for every rank.
#pragma once

#include <string>

#include "sullae/sullae.h"

namespace sullae {

/// `text` of rank `root`, of any length, on every rank; what the others give is ignored.
/// Collective.
std::string broadcast_text(std::string text, int root, const World& world);

}  // namespace sullae
