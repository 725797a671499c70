// A checkpoint as the root lays it out, before anybody writes.
#pragma once

#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/checkpoint/checkpoint.h"
#include "parallel/sharded_state.h"
#include "torch/archive_layout.h"

namespace sullae {

/// A tensor in the archive, and who writes which of its elements, as they lie in memory.
struct Content {
  std::uint64_t offset = 0;
  std::size_t element_bytes = 0;
  std::vector<Part> parts;
  /// That of the root's which it is, where no other rank has a part; else undefined.
  torch::Tensor own;
};

/// The archive without its tensors, and the tensors: for each parameter of the optimizer's its
/// weights and its moments in the order of their names, and then what else the module has.
struct CheckpointOutline {
  ArchiveLayout layout;
  std::vector<Content> contents;
};

/// `states`: for each parameter as gather_outline() has it; nothing of each where `sharded` is
/// null. Throws InputError.
CheckpointOutline lay_out(const torch::nn::Module& module, const ParameterParts& parts,
                          const Sharded* sharded, const std::vector<StateTensors>& states,
                          const CheckpointOptions& options);

}  // namespace sullae
