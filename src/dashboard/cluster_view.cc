#include "dashboard/cluster_view.h"

#include <algorithm>
#include <exception>

#include "cluster/command.h"

namespace sullae::dashboard {
namespace {

constexpr std::chrono::seconds kStateFresh{2};
constexpr std::chrono::seconds kStateStale{60};

}  // namespace

ClusterView::ClusterView() : settings_(cluster::read_settings(cluster::cluster_folder())) {
  if (settings_.is_configured || cluster::is_installed("squeue"))
    engine_ = cluster::make_engine("slurm", settings_);
}

std::optional<std::filesystem::path> ClusterView::jobs_folder() const {
  if (!engine_) return std::nullopt;
  return settings_.jobs;
}

const cluster::JobView* ClusterState::find(const std::string& id) const {
  const auto found = places.find(id);
  return found == places.end() ? nullptr : &jobs[found->second];
}

std::shared_ptr<const ClusterState> ClusterView::last() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

std::shared_ptr<const ClusterState> ClusterView::now() {
  const std::lock_guard one_at_a_time(asking_);
  if (auto state = last(); state && std::chrono::steady_clock::now() < next_) return state;
  const auto begin = std::chrono::steady_clock::now();
  auto state = std::make_shared<const ClusterState>(engine_ ? ask() : ClusterState());
  // A slow one has something else to do.
  const auto end = std::chrono::steady_clock::now();
  next_ = end + std::clamp<std::chrono::nanoseconds>(10 * (end - begin), kStateFresh, kStateStale);
  const std::lock_guard lock(mutex_);
  return state_ = std::move(state);
}

ClusterState ClusterView::ask() {
  ClusterState state{.engine = engine_->name()};
  state.coordinator_partition = settings_.coordinator;
  cluster::Jobs jobs(settings_, *engine_);
  const auto take = [&](cluster::JobList list) {
    state.jobs = std::move(list.jobs);
    state.problems = std::move(list.problems);
    for (std::size_t i = 0; i < state.jobs.size(); ++i) state.places[state.jobs[i].facts.id] = i;
  };
  try {
    take(jobs.list());
    state.nodes = engine_->nodes();
  } catch (const std::exception& error) {  // a folder that is no job's may be anything
    if (const auto before = last()) {
      state = *before;
      state.problems.clear();
    } else if (state.jobs.empty()) {
      take(jobs.over());
    }
    state.problems.emplace_back(error.what());
  }
  return state;
}

}  // namespace sullae::dashboard
