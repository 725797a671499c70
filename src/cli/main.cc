#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/error_text.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/nearest_option.h"
#include "transport/tf_config.h"

namespace {

// Of flags it is worth a word where they are set.
class HelpFormatter final : public CLI::Formatter {
  std::string make_option_opts(const CLI::Option* option) const override {
    constexpr std::string_view kNotSet = "=false";
    const std::string text = CLI::Formatter::make_option_opts(option);
    const bool is_flag = option->get_expected_max() == 0;
    return is_flag && text.starts_with(kNotSet) ? text.substr(kNotSet.size()) : text;
  }
};

// Only what stands before the program that `sullae run` or `sullae jobs submit` starts is ours.
// There, MPI's -np has one dash, which CLI11 would read as -n p, and -- may end the options.
std::vector<std::string> prepare(CLI::App& program, std::vector<std::string> words) {
  const auto mend = [](std::string& word) {
    if (word == "-np" || word.starts_with("-np=")) word.insert(0, "-");
  };
  if (!words.empty() && words[0] == "bench") std::ranges::for_each(words, mend);
  const bool submits = words.size() > 1 && words[0] == "jobs" && words[1] == "submit";
  if (words.empty() || (words[0] != "run" && !submits)) return words;
  CLI::App* app = program.get_subcommand(words[0]);
  if (submits) app = app->get_subcommand(words[1]);
  for (std::size_t i = submits ? 2 : 1; i < words.size() && words[i].starts_with('-'); ++i) {
    if (words[i] == "--") {
      words.erase(words.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
    mend(words[i]);
    // The word after an option may be its value, which does not start with a dash.
    const bool value_follows = i + 1 < words.size() && !words[i + 1].starts_with('-');
    const CLI::Option* const option = app->get_option_no_throw(words[i]);
    const bool is_flag = option != nullptr && option->get_items_expected_max() == 0;
    if (value_follows && !is_flag && words[i].find('=') == std::string::npos) ++i;
  }
  return words;
}

// The command that was given, as far as it was understood.
const CLI::App* deepest_parsed(const CLI::App* app) {
  for (const CLI::App* command : app->get_subcommands()) return deepest_parsed(command);
  return app;
}

// The name of a command, with those before it.
std::string name_of(const CLI::App* command) {
  std::string name = command->get_name();
  for (const CLI::App* part = command->get_parent(); part != nullptr; part = part->get_parent())
    name.insert(0, part->get_name() + " ");
  return name;
}

// "--epoch is not an option of sullae train mnist (did you mean --epochs?); see …"
std::string describe_extra(const CLI::App& program, const std::vector<std::string>& words) {
  const CLI::App* const app = deepest_parsed(&program);
  const auto extras = program.remaining(/*recurse=*/true);
  // In the order in which they were typed. What looks like an option comes before a value that may
  // be its own, and that may stand earlier, too, as the value of a known option: --epochs 1
  // --threads 1.
  const auto first_extra = [&](std::string_view start) {
    return std::ranges::find_if(words, [&](const auto& word) {
      return word.starts_with(start) && std::ranges::find(extras, word) != extras.end();
    });
  };
  auto extra = first_extra("--");
  if (extra == words.end()) extra = first_extra("");
  const std::string name = extra == words.end() ? "an argument" : *extra;
  return sullae::cli::describe_unknown(*app, name, name_of(app));
}

// What is said where a command should stand and none does; empty if that is not what is wrong.
std::string describe_no_command(CLI::App* app, const std::vector<std::string>& words) {
  for (const auto& word : words) {
    if (word.starts_with('-')) break;
    const auto commands = app->get_subcommands({});
    if (commands.empty()) return {};
    const auto command =
        std::ranges::find(commands, word, [](const CLI::App* c) { return c->get_name(); });
    if (command == commands.end())
      return sullae::cli::describe_unknown_command(*app, word, name_of(app));
    app = *command;
  }
  return sullae::cli::describe_missing_command(*app, name_of(app));
}

// TensorFlow's clusters have one command line for all tasks, of which parameter servers do not
// train.
std::vector<std::string> as_its_task(std::vector<std::string> words) {
  if (words.empty() || words[0] != "train") return words;
  const auto config = sullae::tf_config(sullae::process_environment());
  if (config && config->task == sullae::TfConfig::Task::parameter_server)
    return {"ps", "--end-with-workers"};
  return words;
}

int run(int argc, char** argv) {
  auto words = as_its_task({argv + 1, argv + argc});
  sullae::cli::hand_over(words);
  CLI::App program("Sullae: distributed deep learning for C++", "sullae");
  program.formatter(std::make_shared<HelpFormatter>());
  program.set_version_flag("--version",
                           std::string("sullae ") + sullae::kVersion + '\n' + sullae::kParts);
  program.require_subcommand(1);
  auto commands = sullae::cli::make_commands();
  std::vector<CLI::App*> parsers;
  for (const auto& command : commands) parsers.push_back(command->declare(program));
  // After them: a command without a footer takes over what the program has by then.
  program.footer(
      "Examples:\n"
      "  sullae train mnist                       train on this machine, one rank\n"
      "  sullae run -np 4 sullae train mnist      the same with four ranks\n"
      "  sullae run -np 8 -H node1:4,node2:4 ./my_program\n"
      "\n'sullae COMMAND --help' says more about a command.");
  words = prepare(program, std::move(words));

  if (words.empty()) {
    std::fputs(program.help().c_str(), stderr);
    return 2;
  }
  std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 takes them
  try {
    program.parse(reversed);
  } catch (const CLI::ExtrasError&) {
    std::fprintf(stderr, "sullae: %s\n", describe_extra(program, words).c_str());
    return 2;
  } catch (const CLI::ParseError& error) {
    // --help and --version.
    if (error.get_exit_code() == 0) return program.exit(error);
    if (const auto problem = describe_no_command(&program, words); !problem.empty()) {
      std::fprintf(stderr, "sullae: %s\n", problem.c_str());
    } else {
      const auto command = name_of(deepest_parsed(&program));
      std::fprintf(stderr, "%s: %s; see %s --help\n", command.c_str(), error.what(),
                   command.c_str());
    }
    return 2;  // as other programs
  }
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (!parsers[i]->parsed()) continue;
    try {
      return commands[i]->run();
    } catch (const sullae::cli::UsageError& error) {
      std::fprintf(stderr, "sullae: %s\n", error.what());
      return 2;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "sullae %s: %s\n", parsers[i]->get_name().c_str(),
                   sullae::message_of(error).c_str());
      return 1;
    }
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sullae: %s\n", sullae::message_of(error).c_str());
    return 1;
  }
}
