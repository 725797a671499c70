// What ranks that have the scores of some classes know of all.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "sullae/sullae.h"

namespace sullae {

/// Of each row, on every rank but for what is its own.
struct ScoresInParts {
  torch::Tensor
      own;  ///< [rows] the target's place among this rank's classes; 0 where it has it not
  torch::Tensor is_own;        ///< [rows] bool
  torch::Tensor exponentials;  ///< [rows, own classes] of this rank's scores, less `most`
  torch::Tensor most;          ///< [rows] the greatest of all ranks' scores
  torch::Tensor sum;           ///< [rows] of all ranks' exponentials
  torch::Tensor score;         ///< [rows] the target's, less `most`; 0 where no rank has it
};

/// `scores`, [rows, own classes], float32 or float64, are of the classes from `from` on; `target`
/// [rows] int64. Two allreduces, of a number and of two a row. Collective.
ScoresInParts scores_in_parts(const torch::Tensor& scores, const torch::Tensor& target,
                              std::int64_t from, const World& world);

}  // namespace sullae
