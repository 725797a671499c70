// Kubernetes: jobs as JobSet objects (jobset.x-k8s.io/v1alpha2, https://jobset.sigs.k8s.io), which
// kubectl applies.
#pragma once

#include <memory>

#include "cluster/engine.h"

namespace sullae::cluster {

std::unique_ptr<Engine> make_kubernetes_engine(const Settings& settings);

}  // namespace sullae::cluster
