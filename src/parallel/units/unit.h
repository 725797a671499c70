// The parameters of a unit: a range of memory for those of each type, of which each rank keeps a
// part.
#pragma once

#include <c10/core/Storage.h>
#include <torch/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "parallel/parameter_shards.h"
#include "sullae/sullae.h"
#include "torch/bucket_plan.h"

namespace sullae {

/// Who is named in messages.
inline constexpr const char* kUnits = "ShardedUnits";

/// Those of one type.
struct UnitSection {
  std::size_t element_bytes() const { return c10::elementSize(type); }
  std::size_t bytes() const { return elements * element_bytes(); }

  torch::ScalarType type;
  std::vector<std::size_t> members;  ///< by place: which of the unit's
  std::vector<std::size_t> sizes;    ///< by place
  std::vector<std::size_t> starts;   ///< by place
  std::size_t offset = 0;            ///< of all in the unit's memory, in bytes
  std::size_t elements = 0;          ///< of all, and what is between them
  std::vector<std::size_t> counts;   ///< by rank
  torch::Tensor shard;               ///< this rank's part
  std::vector<ShardPiece> pieces;    ///< of the shard
  std::vector<torch::Tensor>
      updated;             ///< by piece: what the optimizer updates, in float32 or wider
  torch::Tensor gradient;  ///< of the shard; undefined for none
};

/// Used by the thread that trains, but for gradients and `present`, which reductions under way
/// write to.
struct Unit {
  /// Of a parameter in its section.
  struct Place {
    std::size_t section = 0;
    std::size_t place = 0;
  };

  /// Takes the parameters, which are the same on all ranks, and leaves them without memory.
  /// `values`: what they are before they are of the types that they have by now.
  Unit(std::string unit_name, std::vector<PlannedParameter> parameters_of_it,
       const std::vector<torch::Tensor>& values, int ranks, int rank);

  torch::Device device() const { return parameters.front().tensor.device(); }
  std::size_t bytes() const { return sections.back().offset + sections.back().bytes(); }
  /// `memory` becomes that of all parameters; null for none.
  void move_to(std::byte* memory);
  /// That of a parameter, in memory of all, which is `on` a device.
  torch::Tensor at(std::byte* memory, torch::Device on, std::size_t parameter) const;
  /// What this rank updates of one; undefined for nothing.
  torch::Tensor piece_of(std::size_t parameter) const;
  /// What was reduced becomes that of what is updated.
  void give_gradients();
  void forget_gradients();
  /// What was updated becomes this rank's part, where that is of another type.
  void cast_masters();

  std::string name;
  std::vector<PlannedParameter> parameters;
  std::vector<UnitSection> sections;
  std::vector<Place> places;   ///< by parameter
  std::vector<float> present;  ///< by parameter: ranks and passes that had a gradient

 private:
  c10::Storage storage_;
};

}  // namespace sullae
