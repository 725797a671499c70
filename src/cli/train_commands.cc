#include "cli/commands.h"

namespace sullae::cli {

// Of sullae-train, as kOtherCommands lists them.
std::vector<std::unique_ptr<Command>> make_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_train_command());
  commands.push_back(make_scaling_command());
  commands.push_back(make_generate_command());
  commands.push_back(make_data_command());
  commands.push_back(make_report_command());
  return commands;
}

void hand_over(const std::vector<std::string>&) {}

}  // namespace sullae::cli
