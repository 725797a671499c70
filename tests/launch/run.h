// `sullae run` from outside, for tests.
#pragma once

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/program.h"

namespace sullae::testing {

inline ProgramResult sullae_run(std::vector<std::string> words,
                                const std::map<std::string, std::string>& environment = {}) {
  words.insert(words.begin(), {sullae_program(), "run"});
  return run_program(words, environment);
}

inline std::vector<std::string> sorted_lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::ranges::sort(lines);
  return lines;
}

}  // namespace sullae::testing
