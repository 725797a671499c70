#include "cluster/worker_plan.h"

#include <algorithm>

namespace sullae::cluster {
namespace {

template <class Map>
int count_in(const Map& counts, const std::string& id) {
  const auto found = counts.find(id);
  return found == counts.end() ? 0 : found->second;
}

}  // namespace

void WorkerPlan::admitted(const std::string& id) {
  ++admitted_[id];
  fruitless_ = 0;
}

WorkerPlan::Decision WorkerPlan::decide(const std::vector<EngineJob>& jobs,
                                        const std::map<std::string, int>& present,
                                        const Size& size) {
  Decision decision;
  std::set<std::string> listed;
  std::vector<const EngineJob*> waiting;
  int nodes = 0;
  for (const EngineJob& job : jobs) {
    if (job.mark.role != Role::workers || job.mark.submission != submission_) continue;
    listed.insert(job.id);
    if (!asked_.contains(job.id)) {
      if (is_live(job)) decision.cancel.push_back(job.id);  // of an attempt before
      continue;
    }
    if (!is_live(job)) {
      if (!ended_.insert(job.id).second || let_go_.contains(job.id)) continue;
      decision.ended.push_back(job);
      const bool by_itself = job.state == EngineState::ended || job.state == EngineState::failed ||
                             job.state == EngineState::out_of_memory;
      if (by_itself && count_in(admitted_, job.id) == 0) ++fruitless_;
      continue;
    }
    if (let_go_.contains(job.id)) continue;
    // A node whose worker has gone will have no other, though the job goes on with the rest of its
    // nodes.
    nodes += count_in(present, job.id) + std::max(0, job.nodes - count_in(admitted_, job.id));
    if (job.state == EngineState::pending) waiting.push_back(&job);
  }
  // The engine may be slow to list them, or hide them: they are not asked for again.
  for (const auto& [id, count] : asked_) {
    if (!listed.contains(id) && !ended_.contains(id) && !let_go_.contains(id)) nodes += count;
  }
  if (nodes < size.max_nodes && nodes == 0) {
    // The least comes at once, so that two jobs do not wait for each other's nodes; the others as
    // they can be had.
    decision.ask.push_back(size.min_nodes);
    nodes = size.min_nodes;
  }
  for (; nodes < size.max_nodes; ++nodes) decision.ask.push_back(1);
  decision.release = std::max(0, nodes - size.max_nodes);
  for (auto job = waiting.rbegin(); job != waiting.rend(); ++job) {
    if ((*job)->nodes > decision.release) continue;
    decision.cancel.push_back((*job)->id);
    let_go((*job)->id);
    decision.release -= (*job)->nodes;
  }
  return decision;
}

}  // namespace sullae::cluster
