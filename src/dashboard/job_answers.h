// What clients are told of jobs, the queue and nodes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "dashboard/catalogue.h"
#include "dashboard/cluster_view.h"

namespace sullae::dashboard {

/// Jobs, the newest first, and nodes.
nlohmann::json list_jobs(const ClusterState& cluster);
/// The job "id", its attempts, and the runs that are its. Throws RequestError.
nlohmann::json show_job(const ClusterState& cluster, const std::filesystem::path& jobs,
                        const Contents& contents, const std::string& query);
/// Of the job "id" what its attempt "attempt" (the last) has written, "from" a byte on; see
/// log_piece(). Throws RequestError, Error.
nlohmann::json job_log(const ClusterState& cluster, const std::filesystem::path& jobs,
                       const std::string& query);

}  // namespace sullae::dashboard
