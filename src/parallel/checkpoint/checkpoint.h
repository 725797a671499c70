// Checkpoints of which each rank writes, or is given, its parts: the optimizer's state is nowhere
// whole.
#pragma once

#include <torch/nn/module.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <vector>

#include "parallel/parameter_parts.h"
#include "sullae/parallel/sharded_optimizer.h"
#include "sullae/torch/checkpoint.h"

namespace sullae {

/// An optimizer of parts, from within.
struct Sharded {
  torch::optim::Optimizer& optimizer;  ///< of this rank's pieces
  const ShardedOptimizer::Maker& make;
};

/// Who lays it out, and reads it.
inline constexpr int kCheckpointRoot = 0;
/// Of the messages in which contents travel, and how large they are at most, in bytes.
inline constexpr int kCheckpointTag = 0x5b;
inline constexpr std::size_t kCheckpointMessage = std::size_t{4} << 20;

/// See save_checkpoint() and load_checkpoint() in sharded_optimizer.h, and, where `sharded` is
/// null, save_weights() and load_weights().
void save_parts(const std::filesystem::path& file, const torch::nn::Module& module,
                ParameterParts& parts, const Sharded* sharded, const CheckpointOptions& options);
CheckpointMetadata load_parts(const std::filesystem::path& file, torch::nn::Module& module,
                              ParameterParts& parts, const Sharded* sharded);

/// An optimizer of all parameters that has their names and shapes, and nothing of their size.
std::unique_ptr<torch::optim::Optimizer> make_outline(const ParameterParts& parts,
                                                      const ShardedOptimizer::Maker& make,
                                                      ShardedOptimizer::Pieces& parameters);

/// Of ranks that have the same elements the first writes them: whether it is part number `i` that
/// is written, of ParameterParts::parts_of().
inline bool is_written(const std::vector<Part>& parts, std::size_t i) {
  return i == 0 || parts[i - 1].from != parts[i].from;
}

/// Who writes which elements of a parameter, and who of what an optimizer keeps of it: each element
/// one rank.
std::vector<Part> writers_of(const ParameterParts& parts, std::size_t parameter);
std::vector<Part> moment_writers_of(const ParameterParts& parts, std::size_t parameter);

}  // namespace sullae
