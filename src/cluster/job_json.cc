#include "cluster/job_json.h"

namespace sullae::cluster {

nlohmann::json json_of(const JobView& view) {
  const auto& job = view.facts.job;
  return nlohmann::json{{"job", view.facts.id},
                        {"name", job.name},
                        {"state", to_text(view.state)},
                        {"reason", view.reason},
                        {"exit_code", view.exit_code},
                        {"nodes", view.nodes},
                        {"min_nodes", view.facts.size.min_nodes},
                        {"max_nodes", view.facts.size.max_nodes},
                        {"hosts", view.hosts},
                        {"attempts", view.facts.attempts},
                        {"submitted", view.submitted},
                        {"started", view.started},
                        {"ended", view.ended},
                        {"engine_id", view.engine_id},
                        {"command", job.command}};
}

}  // namespace sullae::cluster
