// Reports of training runs, side by side.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sullae/train/observer.h"

namespace sullae::train {

/// "394 MB", what a rank had of memory at most; empty where that is not known.
std::string format_memory(const Report& report);

/// As text, and back.
std::string to_text(const std::vector<EpochReport>& history);
std::vector<EpochReport> history_of(const std::string& text);
std::string to_text(const std::vector<WorldChange>& changes);
std::vector<WorldChange> world_changes_of(const std::string& text);

/// What was measured of a metric, or an empty text.
std::string format_measured(const Metric& metric, const std::map<std::string, double>& measured);
std::string format_test_metric(const Metric& metric, const Report& report);

/// A table with a column a report; with more than one, the speed of each against the first, and how
/// much of the ideal that is.
std::string format_table(const std::vector<Report>& reports);

}  // namespace sullae::train
