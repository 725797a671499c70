// What clients are told of runs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "dashboard/catalogue.h"
#include "dashboard/cluster_view.h"
#include "dashboard/histories.h"

namespace sullae::dashboard {

/// A page of the table: those that match "search" (words in names and settings) and "state", in the
/// order of "sort" ("started", "name", "state", "time", "step", or a tag), "descending=1", from
/// "offset" on at most "limit" (100). `cluster` may be null. Throws RequestError.
nlohmann::json list_runs(const Contents& contents, const ClusterState* cluster,
                         const std::string& query);

/// All of the run "id", but its points: tags with their last values and number of points, notes.
/// Throws RequestError.
nlohmann::json show_run(const Contents& contents, const ClusterState* cluster, Histories& histories,
                        const std::string& query);

/// Of each "run" (repeatable) its curves with the tags "tag" (repeatable): at most "points" (1000)
/// of each, over "x": "step", or "time", seconds from its first line on; those between "from" and
/// "to". Throws RequestError.
nlohmann::json curves(const Contents& contents, Histories& histories, const std::string& query);

}  // namespace sullae::dashboard
