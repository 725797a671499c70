// The allreduce algorithms over messages, and which of them suits what.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "collective/p2p/p2p.h"

namespace sullae::p2p {

struct AllreduceAlgorithm {
  /// As SULLAE_ALLREDUCE_ALGORITHM names it.
  std::string name;
  /// Whether it can run on so many ranks at all.
  std::function<bool(int ranks)> can_run;
  /// Whether it should, for so many bytes: the first algorithm that can and should does.
  std::function<bool(std::size_t bytes, int ranks)> suits;
  std::function<void(Exchange&, const Signature&, const Reduction&)> run;
};

/// In the order in which they are asked.
const std::vector<AllreduceAlgorithm>& allreduce_algorithms();
/// Adds one, which is asked before all others, before the first world is made.
void register_allreduce_algorithm(AllreduceAlgorithm algorithm);

/// The one that `name` asks for where it can run, else the first that suits; "auto" asks for none.
const AllreduceAlgorithm& choose_allreduce(const std::string& name, std::size_t bytes, int ranks);

/// Throws InputError, with those that there are, unless `name` is "auto" or an algorithm's.
void check_allreduce_algorithm(const std::string& name);

}  // namespace sullae::p2p
