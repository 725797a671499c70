// A job for programs: of `sullae jobs list --json`, and of the dashboard.
#pragma once

#include <nlohmann/json.hpp>

#include "cluster/job_view.h"

namespace sullae::cluster {

/// Without its environment, which may have secrets.
nlohmann::json json_of(const JobView& view);

}  // namespace sullae::cluster
