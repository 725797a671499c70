// What commands of jobs and clusters share: the cluster that they talk to, and tables of what it
// has.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cluster/engine.h"
#include "cluster/job_view.h"
#include "cluster/jobs.h"
#include "cluster/settings.h"

namespace sullae::cli {

struct OpenCluster {
  explicit OpenCluster(const std::string& engine_name = "slurm");

  cluster::Settings settings;
  std::unique_ptr<cluster::Engine> engine;
  cluster::Jobs jobs;
};

/// What the engine alone knows of its end is kept, as with all below.
cluster::JobView view_of(cluster::Jobs& jobs, const cluster::JobFolder& folder);
/// Or why the engine, too busy, does not answer. Throws where nobody is there to answer.
std::variant<cluster::JobView, std::string> view_or_problem(OpenCluster& cluster,
                                                            const cluster::JobFolder& folder);
/// On standard error.
void print_warnings(const std::vector<std::string>& problems);
/// Of all jobs; folders that are none are named on standard error.
std::vector<cluster::JobView> views_of(cluster::Jobs& jobs);

enum class JobFilter { all, active };
void print_jobs(std::span<const cluster::JobView> views, JobFilter filter);
void print_nodes(std::span<const cluster::Node> nodes);

/// "2026-11-25 06:00:00", local; "-" for 0.
std::string format_time(std::int64_t time);
/// "3/1-4", "2": nodes that a job has, and may have.
std::string format_nodes(const cluster::JobView& view);

}  // namespace sullae::cli
