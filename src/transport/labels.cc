#include "transport/labels.h"

#include <fmt/format.h>

#include "base/hash.h"

namespace sullae {

void Labels::set(std::string_view name, std::uint64_t plan) {
  // Never 0, which is no label.
  current_ = name.empty() ? 0 : fnv1a(name, kFnvStart ^ plan) | 1U;
  if (name.empty() || names_.contains(current_)) return;
  names_[current_] = plan == 0 ? fmt::format("'{}'", name)
                               : fmt::format("'{}' of plan {:08x}", name, plan & 0xffffffffU);
}

MismatchError Labels::mismatch(int rank, const Signature& mine, int other_rank,
                               const Signature& theirs) const {
  return MismatchError(
      fmt::format("ranks disagree about the collective: rank {} called {}, but rank {} called {}",
                  rank, describe(mine), other_rank, describe(theirs)));
}

std::string Labels::describe(const Signature& signature) const {
  if (signature.label == 0) return signature.describe();
  const auto known = names_.find(signature.label);
  return fmt::format(
      "{} for {}", signature.describe(),
      known != names_.end() ? known->second : "something that this rank has not planned");
}

}  // namespace sullae
