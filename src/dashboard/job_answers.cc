#include "dashboard/job_answers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/request_error.h"
#include "cluster/job_json.h"
#include "dashboard/log_piece.h"
#include "http/query.h"

namespace sullae::dashboard {
namespace {

using nlohmann::json;

json node_json(const cluster::Node& node, const std::string& coordinators) {
  json partitions = json::array();
  for (const auto& [name, is_default] : node.partitions) partitions.push_back(name);
  return {{"name", node.name},
          {"state", node.state},
          {"cpus", node.cpus},
          {"idle_cpus", node.idle_cpus},
          {"memory_mb", node.memory_mb},
          {"partitions", std::move(partitions)},
          {"coordinates", node.partitions.size() == 1 && node.partitions.contains(coordinators)},
          {"reason", node.reason}};
}

json job_json(const cluster::JobView& view) {
  json shown = cluster::json_of(view);
  shown["over"] = cluster::is_over(view.state);
  return shown;
}

const cluster::JobView& find_job(const ClusterState& cluster, const std::string& query) {
  const auto id = http::text_of(query, "id").value_or("");
  if (const auto* const found = cluster.find(id)) return *found;
  throw RequestError(Refusal::not_found, fmt::format("there is no job '{}'", id));
}

}  // namespace

json list_jobs(const ClusterState& cluster) {
  json jobs = json::array();
  for (const auto& view : cluster.jobs) jobs.push_back(job_json(view));
  std::ranges::reverse(jobs);
  json nodes = json::array();
  for (const auto& node : cluster.nodes)
    nodes.push_back(node_json(node, cluster.coordinator_partition));
  return {{"engine", cluster.engine},
          {"problems", cluster.problems},
          {"jobs", std::move(jobs)},
          {"nodes", std::move(nodes)}};
}

json show_job(const ClusterState& cluster, const std::filesystem::path& jobs,
              const Contents& contents, const std::string& query) {
  const auto& view = find_job(cluster, query);
  const cluster::JobFolder folder(jobs / view.facts.id);
  json shown = job_json(view);
  shown["folder"] = folder.path().string();
  shown["directory"] = view.facts.job.directory;
  shown["history"] = json::array();
  for (int attempt = 1; attempt <= view.facts.attempts; ++attempt) {
    const auto result = folder.attempt_result(attempt);
    json one{{"attempt", attempt}};
    if (result)
      one.update({{"end", to_text(result->end)},
                  {"reason", result->reason},
                  {"exit_code", result->exit_code},
                  {"started", result->started},
                  {"ended", result->ended}});
    shown["history"].push_back(std::move(one));
  }
  shown["runs"] = json::array();
  for (const auto& [name, run] : contents.runs) {
    if (run->record.job == view.facts.id) shown["runs"].push_back(name);
  }
  return shown;
}

json job_log(const ClusterState& cluster, const std::filesystem::path& jobs,
             const std::string& query) {
  const auto& view = find_job(cluster, query);
  const auto attempt = http::number_of(query, "attempt", view.facts.attempts);
  if (attempt < 1 || attempt > view.facts.attempts)
    throw RequestError(Refusal::not_found,
                       fmt::format("{} has no attempt {}", view.facts.id, attempt));
  const cluster::JobFolder folder(jobs / view.facts.id);
  const auto file = folder.attempt(static_cast<int>(attempt)) / "log";
  const auto from = http::number_of(query, "from", -1);
  return log_piece(folder.path(), file, from < 0 ? std::nullopt : std::optional(from));
}

}  // namespace sullae::dashboard
