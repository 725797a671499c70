#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/version.h"

namespace {

// MPI's -np has one dash, which CLI11 would read as -n p. Only what stands before the program that
// `sullae run` starts is ours.
std::vector<std::string> spell_np_out(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words[0] != "run") return words;
  for (std::size_t i = 1; i < words.size() && words[i].starts_with('-'); ++i) {
    if (words[i] == "-np") words[i] = "--np";
    // The word after an option may be its value, which does not start with a dash.
    if (i + 1 < words.size() && !words[i + 1].starts_with('-') &&
        words[i].find('=') == std::string::npos)
      ++i;
  }
  return words;
}

// The word that stands where a command should and is none; empty if there is no such word.
std::string unknown_command(CLI::App* app, const std::vector<std::string>& words) {
  for (const auto& word : words) {
    if (word.starts_with('-')) return {};
    const auto commands = app->get_subcommands({});
    const auto command =
        std::ranges::find(commands, word, [](const CLI::App* c) { return c->get_name(); });
    if (command == commands.end()) return commands.empty() ? std::string() : word;
    app = *command;
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program("Sullae: distributed deep learning for C++", "sullae");
  program.set_version_flag("--version", std::string(sullae::cli::kVersion));
  program.require_subcommand(1);
  program.footer(
      "Examples:\n"
      "  sullae train mnist                       train on this machine, one rank\n"
      "  sullae run -np 4 sullae train mnist      the same with four ranks\n"
      "  sullae run -np 8 -H node1:4,node2:4 ./my_program\n"
      "\n'sullae COMMAND --help' says more about a command.");
  auto commands = sullae::cli::make_commands();
  std::vector<CLI::App*> parsers;
  for (const auto& command : commands) parsers.push_back(command->declare(program));

  auto words = spell_np_out(argc, argv);
  std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 takes them
  try {
    program.parse(reversed);
  } catch (const CLI::ParseError& error) {
    if (const auto word = unknown_command(&program, words); !word.empty()) {
      std::fprintf(stderr, "sullae: '%s' is not a command; see sullae --help\n", word.c_str());
      return 2;
    }
    // 2 for a wrong command line, as other programs; 0 for --help and --version.
    return program.exit(error) == 0 ? 0 : 2;
  }
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (!parsers[i]->parsed()) continue;
    try {
      return commands[i]->run();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "sullae %s: %s\n", parsers[i]->get_name().c_str(), error.what());
      return 1;
    }
  }
  return 2;
}
