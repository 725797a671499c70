// The order of what a rank has of a model.
#pragma once

#include <string>

namespace sullae {

/// What a module is, besides, that has several stages of a model with other ranks' between them.
/// Checkpoints of models in parts (sullae/parallel/tensor_parallel.h) have parameters in the order
/// of stages.
class StageNumbers {
 public:
  virtual ~StageNumbers() = default;
  /// The number, among those of all ranks, of the stage that has the parameter, buffer or module
  /// called `name`.
  virtual int stage_of(const std::string& name) const = 0;
};

}  // namespace sullae
