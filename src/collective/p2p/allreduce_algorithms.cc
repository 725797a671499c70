#include "collective/p2p/allreduce_algorithms.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "sullae/error.h"

namespace sullae::p2p {
namespace {

// From here on a ring, which keeps every link busy, beats halving and doubling.
constexpr std::size_t kRingBytes = std::size_t{1} << 20;

bool always(int) { return true; }
bool power_of_two(int ranks) { return std::has_single_bit(static_cast<unsigned>(ranks)); }

std::vector<AllreduceAlgorithm>& registry() {
  static std::vector<AllreduceAlgorithm> algorithms = {
      {"recursive_doubling", always, [](std::size_t bytes, int) { return bytes <= kLatencyBytes; },
       allreduce_recursive_doubling},
      {"halving_doubling", power_of_two,
       [](std::size_t bytes, int ranks) { return bytes < kRingBytes && ranks > 2; },
       allreduce_halving_doubling},
      {"ring", always, [](std::size_t, int) { return true; }, allreduce_ring},
  };
  return algorithms;
}

const AllreduceAlgorithm* find(const std::string& name) {
  const auto found = std::ranges::find(registry(), name, &AllreduceAlgorithm::name);
  return found == registry().end() ? nullptr : &*found;
}

}  // namespace

const std::vector<AllreduceAlgorithm>& allreduce_algorithms() { return registry(); }

void register_allreduce_algorithm(AllreduceAlgorithm algorithm) {
  registry().insert(registry().begin(), std::move(algorithm));
}

const AllreduceAlgorithm& choose_allreduce(const std::string& name, std::size_t bytes, int ranks) {
  if (name != "auto") {
    const AllreduceAlgorithm* const asked = find(name);
    if (asked != nullptr && asked->can_run(ranks)) return *asked;
  }
  return *std::ranges::find_if(registry(), [&](const AllreduceAlgorithm& algorithm) {
    return algorithm.can_run(ranks) && algorithm.suits(bytes, ranks);
  });
}

void check_allreduce_algorithm(const std::string& name) {
  if (name == "auto" || find(name) != nullptr) return;
  std::string known;
  for (const auto& algorithm : registry()) known += ", " + algorithm.name;
  throw InputError(
      fmt::format("SULLAE_ALLREDUCE_ALGORITHM='{}': expected one of auto{}", name, known));
}

}  // namespace sullae::p2p
