// Tags as MPI takes them: of MPI_TAG_UB at most, which may be 32767.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "sullae/error.h"

namespace sullae {

/// Of make_tag() (transport.h): different steps of a collective have different tags, and so have
/// collectives that are less than kept() apart.
class ShortTags {
 public:
  /// `most`: MPI_TAG_UB. Throws InputError where it leaves too few.
  ShortTags(std::uint64_t most, int ranks)
      : steps_(static_cast<std::uint64_t>(ranks) + kFew),
        tags_(2 * steps_ + 2 * kFew),
        kept_((most + 1) / tags_) {
    if (kept_ < kLeast)
      throw InputError(fmt::format(
          "SULLAE_TRANSPORT=mpi: this MPI has tags up to {} (MPI_TAG_UB), and {} ranks need {} at "
          "least: expected another MPI, or SULLAE_TRANSPORT=ucx",
          most, ranks, kLeast * tags_));
  }

  int of(std::uint64_t tag) const {
    const std::uint64_t step = tag & 0xffff;
    // They count from these on: by ranks in the first two, and a few in the others (p2p.h).
    const std::uint64_t kind = step >= 0xfff0 ? 3 : step >= 0x8000 ? 2 : step >= 0x4000 ? 1 : 0;
    constexpr std::array<std::uint64_t, 4> kFirst = {0, 0x4000, 0x8000, 0xfff0};
    const std::array<std::uint64_t, 4> begin = {0, steps_, 2 * steps_, 2 * steps_ + kFew};
    return static_cast<int>((tag >> 16) % kept_ * tags_ + begin[kind] + step - kFirst[kind]);
  }
  std::uint64_t kept() const { return kept_; }

 private:
  static constexpr std::uint64_t kFew = 16;
  static constexpr std::uint64_t kLeast = 64;  // what is under way at a time

  std::uint64_t steps_;
  std::uint64_t tags_;  // of a collective
  std::uint64_t kept_;
};

}  // namespace sullae
