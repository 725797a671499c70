// Reports as a page that any browser shows, with nothing loaded from elsewhere.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/monitor/report.h"

namespace sullae::train {

/// What all pages have in common.
const char* page_style();

/// Plots and tables of one run, or of several side by side. Throws Error.
void write_report_page(const std::filesystem::path& file, const std::vector<Report>& reports);

/// For rank 0: the report of a run as JSON, and beside it as a page, when it ends.
class ReportFiles final : public Observer {
 public:
  explicit ReportFiles(std::filesystem::path file) : file_(std::move(file)) {}
  void ended(const Report& report) override;

 private:
  std::filesystem::path file_;
};

/// A run of a comparison of numbers of workers.
struct ScalingPoint {
  std::string way;  ///< "scale-up" or "scale-out"
  int workers = 1;
  double speedup = 1;
  double efficiency = 1;
  Report report;
};

/// Speedup, efficiency, time and accuracy over the number of workers. Throws Error.
void write_scaling_page(const std::filesystem::path& file, const std::vector<ScalingPoint>& points);

}  // namespace sullae::train
