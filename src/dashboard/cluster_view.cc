#include "dashboard/cluster_view.h"

#include "cluster/command.h"
#include "sullae/error.h"

namespace sullae::dashboard {
namespace {

constexpr std::chrono::seconds kStateFresh{2};

}  // namespace

ClusterView::ClusterView() : settings_(cluster::read_settings(cluster::cluster_folder())) {
  if (settings_.is_configured || cluster::is_installed("squeue"))
    engine_ = cluster::make_engine("slurm", settings_);
}

std::optional<std::filesystem::path> ClusterView::jobs_folder() const {
  if (!engine_) return std::nullopt;
  return settings_.jobs;
}

std::shared_ptr<const ClusterState> ClusterView::last() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

std::shared_ptr<const ClusterState> ClusterView::now() {
  const std::lock_guard one_at_a_time(asking_);
  if (auto state = last(); state && std::chrono::steady_clock::now() < asked_ + kStateFresh)
    return state;
  auto state = std::make_shared<const ClusterState>(engine_ ? ask() : ClusterState());
  asked_ = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  return state_ = std::move(state);
}

ClusterState ClusterView::ask() {
  ClusterState state{.engine = engine_->name()};
  state.coordinator_partition = settings_.coordinator;
  try {
    state.jobs = cluster::Jobs(settings_, *engine_).views(state.problems);
    state.nodes = engine_->nodes();
  } catch (const Error& error) {
    state.problems.emplace_back(error.what());
  }
  return state;
}

}  // namespace sullae::dashboard
