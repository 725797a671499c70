#include "cli/commands.h"
#include "sullae/error.h"

namespace sullae::cli {
namespace {

class NoDashboardCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    CLI::App* app =
        program.add_subcommand("dashboard", "Pages over runs, jobs, pipelines (not in this build)");
    app->allow_extras();
    return app;
  }
  int run() override {
    throw InputError(
        "this sullae was built without the dashboard: expected one built with Boost, OpenSSL and "
        "-D SULLAE_WITH_HTTP=ON");
  }
};

}  // namespace

std::unique_ptr<Command> make_dashboard_command() { return std::make_unique<NoDashboardCommand>(); }

}  // namespace sullae::cli
