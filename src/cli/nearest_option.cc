#include "cli/nearest_option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace sullae::cli {
namespace {

// Characters to change, add or leave out, and neighbours to swap, until one word is the other (optimal
// string alignment).
std::size_t distance(const std::string& one, const std::string& other) {
  std::vector<std::vector<std::size_t>> cost(one.size() + 1,
                                             std::vector<std::size_t>(other.size() + 1));
  for (std::size_t i = 0; i <= one.size(); ++i) {
    for (std::size_t j = 0; j <= other.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1,
                             cost[i - 1][j - 1] + (one[i - 1] == other[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost.back().back();
}

// The one that was probably meant: what begins so, what ends with the same words, as --http-port for --port, or what differs by
// little. Empty for none.
std::string nearest(const std::vector<std::string>& all, const std::string& name) {
  constexpr std::size_t kMostMistakes = 2;
  std::string found;
  std::size_t least = kMostMistakes + 1;
  for (const std::string& one : all) {
    const bool is_longer =
        one.starts_with(name) || (name.starts_with("--") && one.ends_with(name.substr(1)));
    const auto mistakes = is_longer ? 1 : distance(name, one);
    if (mistakes < least) {
      least = mistakes;
      found = one;
    }
  }
  return found;
}

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
