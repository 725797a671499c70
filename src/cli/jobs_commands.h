// The commands below `sullae jobs`.
#pragma once

#include <memory>

#include "cli/command.h"
#include "cli/open_cluster.h"

namespace sullae::cli {

std::unique_ptr<Command> make_jobs_submit_command();
std::unique_ptr<Command> make_jobs_logs_command();

/// Says what becomes of a job, a line a change, until it is over. Returns its exit code.
int watch_job(OpenCluster& cluster, const cluster::JobFolder& folder);

}  // namespace sullae::cli
