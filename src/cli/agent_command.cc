#include <unistd.h>

#include "cli/commands.h"
#include "launch/agent.h"

namespace sullae::cli {
namespace {

// `sullae run` starts it on each host; nobody types it.
class AgentCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    return program.add_subcommand("agent", "Start ranks on this host for sullae run")->group("");
  }
  int run() override { return run_agent(STDIN_FILENO, STDOUT_FILENO).exit_code; }
};

}  // namespace

std::unique_ptr<Command> make_agent_command() { return std::make_unique<AgentCommand>(); }

}  // namespace sullae::cli
