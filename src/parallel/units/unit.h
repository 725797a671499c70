// The parameters of a unit: one range of memory, of which each rank keeps a part.
#pragma once

#include <c10/core/Storage.h>
#include <torch/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "parallel/parameter_shards.h"
#include "sullae/sullae.h"
#include "torch/bucket_plan.h"

namespace sullae {

/// Who is named in messages.
inline constexpr const char* kUnits = "ShardedUnits";

/// Used by the thread that trains, but for `gradient` and `present`, which reductions under way write to.
struct Unit {
  /// Takes the parameters' values, which are the same on all ranks, and leaves them without memory.
  Unit(std::string unit_name, std::vector<PlannedParameter> parameters_of_it, int ranks, int rank);

  std::size_t element_bytes() const { return c10::elementSize(type); }
  std::size_t bytes() const { return elements * element_bytes(); }
  /// `memory` becomes that of all parameters; null for none.
  void move_to(std::byte* memory);
  /// That of a parameter, in memory of all.
  torch::Tensor at(std::byte* memory, std::size_t parameter) const;

  std::string name;
  std::vector<PlannedParameter> parameters;
  torch::ScalarType type;
  std::vector<std::size_t> sizes;
  std::vector<std::size_t> starts;  ///< in the memory of all
  std::size_t elements = 0;         ///< of all, and what is between them
  std::vector<std::size_t> counts;  ///< by rank
  torch::Tensor shard;              ///< this rank's part
  std::vector<ShardPiece> pieces;   ///< of the shard
  std::vector<torch::Tensor>
      updated;                 ///< by piece: what the optimizer updates, in float32 or wider
  torch::Tensor gradient;      ///< of the shard; undefined for none
  std::vector<float> present;  ///< by parameter: ranks and passes that had a gradient

 private:
  c10::Storage storage_;
};

}  // namespace sullae
