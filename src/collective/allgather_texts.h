// Texts of any length from every rank.
#pragma once

#include <string>
#include <vector>

#include "sullae/communicator.h"

namespace sullae {

/// Every rank's text, in the order of ranks. Collective.
std::vector<std::string> allgather_texts(Communicator& communicator, const std::string& mine);

}  // namespace sullae
