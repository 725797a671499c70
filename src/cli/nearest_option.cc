#include "cli/nearest_option.h"

#include <algorithm>
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

// The option that was probably meant; empty for none.
std::string nearest_option(const CLI::App& app, const std::string& name) {
  constexpr std::size_t kMostMistakes = 2;
  std::string nearest;
  std::size_t least = kMostMistakes + 1;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty()) continue;  // a positional
    const auto full = "--" + option->get_lnames().front();
    const auto mistakes = full.starts_with(name) ? 1 : distance(name, full);
    if (mistakes < least) {
      least = mistakes;
      nearest = full;
    }
  }
  return nearest;
}

}  // namespace

std::string describe_unknown(const CLI::App& app, const std::string& name,
                             const std::string& command) {
  const auto meant = name.starts_with("--") ? nearest_option(app, name) : "";
  return name + " is not an option of " + command +
         (meant.empty() ? "" : " (did you mean " + meant + "?)") + "; see " + command + " --help";
}

}  // namespace sullae::cli
