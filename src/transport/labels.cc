#include "transport/labels.h"

#include <fmt/format.h>

#include "base/hash.h"

namespace sullae {

namespace {

// A hash, a turn in 8 bits, and a bit that is always set, since 0 is no label.
constexpr int kTurnShift = 1;
constexpr std::uint64_t kTurnMask = 0xff << kTurnShift;
// Labels of shapes may be ever new.
constexpr std::size_t kMostNames = 10000;

}  // namespace

void Labels::set(std::string_view name, std::uint64_t plan, unsigned turn) {
  if (name.empty()) {
    current_ = 0;
    return;
  }
  const std::uint64_t label = (fnv1a(name, kFnvStart ^ plan) | 1U) & ~kTurnMask;
  current_ = label | ((std::uint64_t{turn} << kTurnShift) & kTurnMask);
  if (names_.contains(label)) return;
  if (names_.size() >= kMostNames) names_.clear();
  names_[label] = plan == 0 ? fmt::format("'{}'", name)
                            : fmt::format("'{}' of plan {:08x}", name, plan & 0xffffffffU);
}

MismatchError Labels::mismatch(int rank, const Signature& mine, int other_rank,
                               const Signature& theirs) const {
  return MismatchError(
      fmt::format("ranks disagree about the collective: rank {} called {}, but rank {} called {}",
                  rank, describe(mine), other_rank, describe(theirs)));
}

std::string Labels::purpose() const {
  const auto known = names_.find(current_ & ~kTurnMask);
  return known == names_.end() ? "" : " for " + known->second;
}

std::string Labels::describe(const Signature& signature) const {
  if (signature.label == 0) return signature.describe();
  const auto known = names_.find(signature.label & ~kTurnMask);
  const auto turn = (signature.label & kTurnMask) >> kTurnShift;
  return fmt::format(
      "{} for {}{}", signature.describe(),
      known != names_.end() ? known->second : "something else, which its own message names",
      turn == 0 ? "" : fmt::format(" once more ({})", turn));
}

}  // namespace sullae
