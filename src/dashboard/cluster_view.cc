#include "dashboard/cluster_view.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <iterator>

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
  const auto add = [&](cluster::JobList list) {
    for (cluster::JobView& job : list.jobs) {
      const auto place = state.places.emplace(job.facts.id, state.jobs.size());
      if (place.second) state.jobs.emplace_back();
      state.jobs[place.first->second] = std::move(job);
    }
    std::ranges::move(list.problems, std::back_inserter(state.problems));
  };
  const auto attempt = [&](const std::function<void()>& part) {
    try {
      part();
      return true;
    } catch (const std::exception& error) {  // a folder that is no job's may be anything
      state.problems.emplace_back(error.what());
      return false;
    }
  };
  const auto before = last();
  const bool are_told = attempt([&] { add(jobs.list()); });
  // Without the engine: what it said last, and what has ended since.
  if (!are_told && before) {
    state.jobs = before->jobs;
    state.places = before->places;
  }
  if (!are_told) attempt([&] { add(jobs.over()); });
  const bool are_nodes_told = are_told && attempt([&] { state.nodes = engine_->nodes(); });
  if (!are_nodes_told && before) state.nodes = before->nodes;
  return state;
}

}  // namespace sullae::dashboard
