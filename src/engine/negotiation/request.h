// What a rank asks the others to do together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transport/signature.h"

namespace sullae::engine {

/// One named operation. Ranks that use the same name mean the same operation, so everything else
/// must be equal, too.
struct Request {
  std::string name;
  Signature signature;
  double prescale = 1.0;
  double postscale = 1.0;
  /// Elements of each tensor of a grouped allreduce, or of each rank's part of an allgather or a
  /// reducescatter; `signature.count` is their sum. Empty for all others.
  std::vector<std::uint64_t> sizes;
  /// The name of the policy that the tensor travels by; empty for none.
  std::string compression;
  /// The tensor's shape as text, for adapters that know one; of a composed operation, what it is.
  /// Compared like everything else.
  std::string shape;
  /// Ranks that have joined submit it as the others do, and it waits for them.
  bool joined_too = false;

  bool operator==(const Request&) const = default;
  /// Operations without a name of the user's are named by their number, so none comes twice.
  bool unnamed() const { return name.find(kUnnamed) != std::string::npos; }
  static constexpr const char* kUnnamed = ".noname.";

  /// "allreduce (sum) of 12 float32 [3, 4]".
  std::string describe() const;
};

}  // namespace sullae::engine
