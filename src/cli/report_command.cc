#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "cli/commands.h"
#include "cli/other_commands.h"
#include "sullae/error.h"
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
    for (const std::filesystem::path file : files_) {
      if (std::filesystem::is_directory(file))
        throw InputError(
            fmt::format("{}: is a folder: expected a file that --report has written; the "
                        "folder of a run is shown by sullae dashboard",
                        file.string()));
      reports.push_back(train::Report::read(file));
    }
    std::fputs(train::format_table(reports).c_str(), stdout);
    return 0;
  }

 private:
  std::vector<std::string> files_;
};

}  // namespace

std::unique_ptr<Command> make_report_command() { return std::make_unique<ReportCommand>(); }

}  // namespace sullae::cli
