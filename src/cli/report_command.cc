#include <cstdio>

#include "cli/commands.h"
#include "cli/other_commands.h"
#include "train/monitor/report.h"

namespace sullae::cli {
namespace {

class ReportCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    CLI::App* app = program.add_subcommand("report", description_of("report"));
    app->add_option("FILE", files_, "Reports to compare")->required();
    return app;
  }

  int run() override {
    std::vector<train::Report> reports;
    for (const auto& file : files_) reports.push_back(train::Report::read(file));
    std::fputs(train::format_table(reports).c_str(), stdout);
    return 0;
  }

 private:
  std::vector<std::string> files_;
};

}  // namespace

std::unique_ptr<Command> make_report_command() { return std::make_unique<ReportCommand>(); }

}  // namespace sullae::cli
