#include <cstdio>

#include "cli/commands.h"
#include "engine/timeline_summary.h"

namespace sullae::cli {
namespace {

class TimelineCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    CLI::App* app = program.add_subcommand(
        "timeline",
        "Sum up a timeline that `sullae run --timeline` recorded: what was hidden, "
        "what was slow, who came last");
    app->add_option("FILE", file_, "The timeline")->required();
    app->footer("The file itself opens in https://ui.perfetto.dev and chrome://tracing.");
    return app;
  }

  int run() override {
    std::fputs(format_summary(summarize_timeline(file_)).c_str(), stdout);
    return 0;
  }

 private:
  std::string file_;
};

}  // namespace

std::unique_ptr<Command> make_timeline_command() { return std::make_unique<TimelineCommand>(); }

}  // namespace sullae::cli
