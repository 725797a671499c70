#include "cli/open_cluster.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <vector>

#include "cluster/slurm/private_cluster.h"
#include "sullae/error.h"

namespace sullae::cli {
namespace {

using Row = std::vector<std::string>;

// Columns as wide as what they hold.
void print_table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

std::string time_of(const cluster::JobView& view) {
  // One that never began, and one that left no word, have no time of their own.
  if (view.started == 0 || (is_over(view.state) && view.ended == 0)) return "-";
  const std::int64_t end = view.ended > 0 ? view.ended : std::time(nullptr);
  return cluster::format_time_limit(
      std::chrono::seconds{std::max<std::int64_t>(0, end - view.started)});
}

// Whoever looks sees it all the same where it cannot be kept.
void keep_end(const cluster::Jobs& jobs, const cluster::JobView& view) {
  try {
    jobs.keep_end(view);
  } catch (const Error& error) {
    print_warnings({fmt::format("job {}: its end is not kept: {}", view.facts.id, error.what())});
  }
}

}  // namespace

OpenCluster::OpenCluster(const std::string& engine_name)
    : settings(cluster::read_settings(cluster::cluster_folder())),
      engine(cluster::make_engine(engine_name, settings)),
      jobs(settings, *engine) {}

cluster::JobView view_of(cluster::Jobs& jobs, const cluster::JobFolder& folder) {
  auto view = jobs.view(folder);
  keep_end(jobs, view);
  return view;
}

std::variant<cluster::JobView, std::string> view_or_problem(OpenCluster& cluster,
                                                            const cluster::JobFolder& folder) {
  try {
    return view_of(cluster.jobs, folder);
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    const auto& settings = cluster.settings;
    if (settings.is_private && cluster::running_daemons(settings.folder).empty()) throw;
    return error.what();
  }
}

void print_warnings(const std::vector<std::string>& problems) {
  for (const auto& why : problems) fmt::print(stderr, "warning: {}\n", why);
}

std::vector<cluster::JobView> views_of(cluster::Jobs& jobs) {
  auto list = jobs.list();
  print_warnings(list.problems);
  for (const auto& view : list.jobs) keep_end(jobs, view);
  return std::move(list.jobs);
}

std::string format_time(std::int64_t time) {
  if (time == 0) return "-";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(static_cast<std::time_t>(time)));
}

std::string format_nodes(const cluster::JobView& view) {
  const auto& size = view.facts.size;
  const auto may = size.min_nodes == size.max_nodes
                       ? fmt::to_string(size.min_nodes)
                       : fmt::format("{}-{}", size.min_nodes, size.max_nodes);
  return cluster::is_over(view.state) ? may : fmt::format("{}/{}", view.nodes, may);
}

void print_jobs(std::span<const cluster::JobView> views, JobFilter filter) {
  std::vector<Row> rows{{"JOB", "STATE", "NODES", "ATTEMPTS", "SUBMITTED", "TIME", "WHY"}};
  for (const auto& view : views) {
    if (filter == JobFilter::active && cluster::is_over(view.state)) continue;
    rows.push_back({view.facts.id, to_text(view.state), format_nodes(view),
                    fmt::to_string(view.facts.attempts), format_time(view.submitted), time_of(view),
                    view.reason});
  }
  if (rows.size() == 1) {
    fmt::print("no jobs\n");
    return;
  }
  print_table(rows);
}

void print_nodes(std::span<const cluster::Node> nodes) {
  std::vector<Row> rows{{"NODE", "STATE", "CPUS", "IDLE", "MEMORY", "PARTITIONS", "WHY"}};
  for (const auto& node : nodes) {
    std::vector<std::string> partitions;
    for (const auto& [name, is_default] : node.partitions)
      partitions.push_back(name + (is_default ? "*" : ""));
    rows.push_back({node.name, node.state, fmt::to_string(node.cpus),
                    fmt::to_string(node.idle_cpus),
                    node.memory_mb > 1 ? fmt::format("{} MB", node.memory_mb) : "-",
                    fmt::format("{}", fmt::join(partitions, ",")), node.reason});
  }
  print_table(rows);
}

}  // namespace sullae::cli
