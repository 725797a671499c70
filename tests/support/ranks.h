// Starts the ranks of a world as threads of the test.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "sullae/sullae.h"

namespace sullae::testing {

/// With the variable SULLAE_TEST_HERE the test is itself a rank of a job (of mpirun, say): bodies
/// run once, in the world that the environment describes.
bool ranks_are_processes();

struct RanksOptions {
  int size = 2;
  std::string transport = "auto";
  /// Ranks a pretended host; 0 puts all on one host.
  std::vector<int> hosts;
  std::chrono::milliseconds timeout{std::chrono::seconds{60}};
};

/// Runs `body` on every rank and returns what each threw, an empty string where it threw nothing.
std::vector<std::string> run_ranks_catching(const RanksOptions& options,
                                            const std::function<void(World&)>& body);

/// Runs `body` on every rank; a rank that throws fails the test.
void run_ranks(const RanksOptions& options, const std::function<void(World&)>& body);

/// A world to run a test in.
struct Setting {
  std::string name;
  RanksOptions ranks;
};
void PrintTo(const Setting& setting, std::ostream* out);

/// Every transport with 1 to 5 ranks, and pretended hosts with equal and unequal numbers of ranks.
std::vector<Setting> every_setting();

}  // namespace sullae::testing
