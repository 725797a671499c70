#include "cli/commands.h"

#include "cli/other_commands.h"

namespace sullae::cli {
namespace {

// For --help alone: given, it has become the other program before.
class InOtherProgram final : public Command {
 public:
  explicit InOtherProgram(const OtherCommand& command) : command_(command) {}
  CLI::App* declare(CLI::App& program) override {
    return program.add_subcommand(command_.name, command_.description);
  }
  int run() override { return 2; }

 private:
  OtherCommand command_;
};

}  // namespace

std::vector<std::unique_ptr<Command>> make_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_run_command());
  commands.push_back(make_hosts_command());
  commands.push_back(make_ps_command());
  commands.push_back(make_jobs_command());
  commands.push_back(make_pipeline_command());
  commands.push_back(make_cluster_command());
  commands.push_back(make_dashboard_command());
  for (const auto& command : kOtherCommands)
    commands.push_back(std::make_unique<InOtherProgram>(command));
  commands.push_back(make_bench_command());
  commands.push_back(make_timeline_command());
  commands.push_back(make_agent_command());
  return commands;
}

void hand_over(const std::vector<std::string>& words) { become_other_program(words); }

}  // namespace sullae::cli
