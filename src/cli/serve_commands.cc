#include "cli/commands.h"

namespace sullae::cli {

// Of sullae-serve, as kOtherCommands lists them.
std::vector<std::unique_ptr<Command>> make_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_serve_command());
  commands.push_back(make_online_command());
  commands.push_back(make_predict_command());
  return commands;
}

void hand_over(const std::vector<std::string>&) {}

}  // namespace sullae::cli
