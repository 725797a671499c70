// What Prometheus is told of models and their versions.
#pragma once

#include <vector>

#include "serve/metrics.h"
#include "serve/repository/served_model.h"

namespace sullae::serve {

/// All versions that are loaded, and the states of the others.
void write_metrics(const std::vector<ModelStatus>& models, MetricsText& text);

}  // namespace sullae::serve
