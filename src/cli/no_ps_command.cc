#include "cli/commands.h"
#include "sullae/error.h"

namespace sullae::cli {
namespace {

class NoPsCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    CLI::App* app = program.add_subcommand("ps", "Be a parameter server (not in this build)");
    app->allow_extras();
    return app;
  }
  int run() override {
    throw InputError(
        "this sullae was built without parameter servers: expected one built with ZeroMQ and -D "
        "SULLAE_WITH_PS=ON");
  }
};

}  // namespace

std::unique_ptr<Command> make_ps_command() { return std::make_unique<NoPsCommand>(); }

}  // namespace sullae::cli
