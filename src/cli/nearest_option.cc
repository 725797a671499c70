#include "cli/nearest_option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "base/nearest.h"

namespace sullae::cli {
namespace {

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_lnames().empty() && !option->get_group().empty())
      names.push_back("--" + option->get_lnames().front());
  }
  return names;
}

// Without those that are for Sullae itself.
std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* const one : app.get_subcommands({})) {
    if (!one->get_group().empty()) names.push_back(one->get_name());
  }
  return names;
}

// What others call it.
std::string translated(const CLI::App& app, const std::string& name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kOtherNames = {
      {{"--nproc-per-node", "--np"},
       {"--nproc_per_node", "--np"},
       {"--num-proc", "--np"},
       {"--nprocs", "--np"},
       {"--num-workers", "--workers"},
       {"--learning-rate", "--lr"}}};
  const auto found = std::ranges::find_if(kOtherNames, [&](const auto& one) {
    return name == one.first || name.starts_with(std::string(one.first) + '=');
  });
  if (found == kOtherNames.end()) return {};
  const std::string ours(found->second);
  if (app.get_option_no_throw(ours) == nullptr) return {};
  return ours == "--np" ? "-np" : ours;
}

std::string hint(const std::string& meant, const std::string& command) {
  return (meant.empty() ? "" : " (did you mean " + meant + "?)") + "; see " + command + " --help";
}

}  // namespace

std::string describe_unknown(const CLI::App& app, const std::string& name,
                             const std::string& command) {
  auto meant = translated(app, name);
  if (meant.empty() && name.starts_with("--")) meant = nearest(options_of(app), name);
  return name + " is not an option of " + command + hint(meant, command);
}

std::string describe_unknown_command(const CLI::App& app, const std::string& name,
                                     const std::string& command) {
  const auto names = commands_of(app);
  return "'" + name + "' is not a command of " + command + hint(nearest(names, name), command);
}

std::string describe_missing_command(const CLI::App& app, const std::string& command) {
  const auto names = commands_of(app);
  if (names.empty() || !app.get_subcommands().empty()) return {};
  return fmt::format("{} is followed by one of {}{}", command, fmt::join(names, ", "),
                     hint("", command));
}

}  // namespace sullae::cli
