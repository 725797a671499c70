// Metrics for Prometheus, in a file that node_exporter's textfile collector reads.
#pragma once

#include <filesystem>
#include <string>

#include "train/monitor/moment.h"

namespace sullae::train {

/// Replaces the file as a whole. Throws Error.
void write_metrics(const std::filesystem::path& file, const std::string& recipe, int world_size,
                   const Moment& moment);

}  // namespace sullae::train
