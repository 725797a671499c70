#include "train/monitor/monitors.h"

#include "sullae/elastic.h"
#include "train/monitor/event_file.h"
#include "train/monitor/metrics_file.h"
#include "train/monitor/progress.h"
#include "train/monitor/report_page.h"
#include "train/monitor/run_folder.h"

namespace sullae::train {

std::vector<std::unique_ptr<Observer>> make_monitors(const TrainOptions& options, int rank) {
  std::vector<std::unique_ptr<Observer>> monitors;
  if (rank != 0) return monitors;
  monitors.push_back(std::make_unique<Progress>(options.log_interval));
  if (!options.tensorboard_dir.empty())
    monitors.push_back(std::make_unique<EventFile>(options.tensorboard_dir, options.log_interval));
  if (!options.metrics_file.empty())
    monitors.push_back(std::make_unique<MetricsFile>(options.metrics_file, options.log_interval));
  if (!options.run_dir.empty()) {
    // In an elastic job another process may be the first rank from some step on, while the one
    // before lives a moment longer, or is thought to.
    const auto earlier = elastic::is_elastic() ? RunLog::Earlier::taken_over
                         : options.resume      ? RunLog::Earlier::continued
                                               : RunLog::Earlier::refused;
    monitors.push_back(std::make_unique<RunFolder>(options.run_dir, earlier, options.log_interval,
                                                   options.max_steps));
  }
  if (!options.report.empty()) monitors.push_back(std::make_unique<ReportFiles>(options.report));
  return monitors;
}

}  // namespace sullae::train
