#include "cli/commands.h"

namespace sullae::cli {

std::vector<std::unique_ptr<Command>> make_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_run_command());
  commands.push_back(make_train_command());
  commands.push_back(make_scaling_command());
  commands.push_back(make_serve_command());
  commands.push_back(make_online_command());
  commands.push_back(make_data_command());
  commands.push_back(make_bench_command());
  commands.push_back(make_timeline_command());
  commands.push_back(make_report_command());
  commands.push_back(make_agent_command());
  return commands;
}

}  // namespace sullae::cli
