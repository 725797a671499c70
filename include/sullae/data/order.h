// The order of an epoch, computed and not stored: any rank, of any number, can start anywhere in
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sullae::data {

struct OrderOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;
  /// 0 shuffles all samples. Otherwise samples stay near their neighbours, for sets that are larger
  /// than memory and lie on disks that like to be read in sequence: runs of `run` consecutive
  /// samples change places, and then samples within windows of this many do.
  std::size_t shuffle_buffer = 0;
  std::size_t run = 64;
};

/// The numbers of all samples in the order of epoch `epoch`. Depends on the arguments alone, so it
/// is the same on every machine.
std::vector<std::size_t> epoch_order(std::size_t size, const OrderOptions& options,
                                     std::size_t epoch);

/// Random numbers that depend on a few numbers alone (SplitMix64, G. Steele, D. Lea, C. Flood,
/// 2014): those for sample 17 of epoch 3 are the same whichever thread or rank draws them. Used by
/// one thread.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream, std::uint64_t position);
  std::uint64_t next();
  /// In [0, bound), unbiased. `bound` is at least 1.
  std::uint64_t below(std::uint64_t bound);
  /// In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double uniform(double from, double to) { return from + (to - from) * uniform(); }

 private:
  std::uint64_t state_;
};

}  // namespace sullae::data
