// Labels: what an operation is part of, as a hash that travels in its Signature. Two ranks that do
// equal operations for different purposes, such as buckets of different plans, are told apart by
// it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "sullae/error.h"
#include "transport/signature.h"

namespace sullae {

/// Remembers the names of the labels that were set here, for messages.
class Labels {
 public:
  /// Of the operations from here on. An empty name: no label. `plan` tells equal names apart, and
  /// `turn`, modulo 256, repetitions of the same.
  void set(std::string_view name, std::uint64_t plan, unsigned turn);
  /// `signature` with the current label.
  Signature stamp(Signature signature) const {
    signature.label = current_;
    return signature;
  }

  /// What the operations from here on are part of: " for 'bucket 0'", or nothing.
  std::string purpose() const;

  /// For two ranks that do not do the same.
  MismatchError mismatch(int rank, const Signature& mine, int other_rank,
                         const Signature& theirs) const;

 private:
  std::string describe(const Signature& signature) const;

  std::uint64_t current_ = 0;
  std::map<std::uint64_t, std::string> names_;  // by label, of turn 0
};

}  // namespace sullae
