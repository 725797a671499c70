// What clients are told of models.
#pragma once

#include <nlohmann/json.hpp>

#include "dashboard/catalogue.h"

namespace sullae::dashboard {

/// All models of repositories, with their versions: which answers, which were withdrawn, how large
/// and how old they are; whether a server serves them, and whether something learns.
nlohmann::json list_models(Catalogue& catalogue);

}  // namespace sullae::dashboard
