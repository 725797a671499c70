// Adasum: a sum of gradients that adapts to how alike they are. Two that are orthogonal are added,
// two that are equal are averaged (S. Maleki et al., Scaling Distributed Training with Adaptive
// Summation, MLSys 2021).
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "collective/adasum/kernels.h"
#include "collective/counts.h"
#include "sullae/communicator.h"

namespace sullae::adasum {

/// What a rank works on.
struct Part {
  /// Joins the ranks that hold the same part of their vectors. Null where this rank holds none, and
  /// takes part in `sum` alone.
  Communicator* peers = nullptr;
  int peer_count = 0;
  /// The part, which becomes the result.
  std::byte* values = nullptr;
  /// Where it lies in the whole vector.
  Range place;
  /// The whole vector's tensors, one after another. Each is combined by products of its own.
  std::span<const std::size_t> tensors;
  DataType type = DataType::float32;
  /// Adds up the products of all ranks that hold parts; every rank calls it equally often.
  std::function<void(std::span<double>)> sum;
};

/// What `sum` is within one group of ranks.
void add_up(Communicator& communicator, std::span<double> products);

/// Vector halving, distance doubling: in step k a rank exchanges half of what it holds with the one
/// at distance 2^k and combines the other half, so that 2^(k+1) ranks together hold the combination
/// of their vectors; at the end the parts are gathered. Ranks beyond the largest power of two give
/// their vectors to a partner first. The same bits on every rank.
void run(const Part& part);

}  // namespace sullae::adasum
