// Parameters in parts, as the optimizer of the parts sees them: the seam, behind which stages
// differ.
#pragma once

#include <torch/ordered_dict.h>
#include <torch/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "parallel/parameter_parts.h"

namespace sullae {

/// Of the parameter at `place` in memory that parameters of `sizes` share, of which each rank has
/// `counts`; see pieces_of().
std::vector<Part> parts_at(std::size_t place, const std::vector<std::size_t>& sizes,
                           std::size_t element_bytes, const std::vector<std::size_t>& counts);

/// Used by the thread that trains.
class ParameterStore : public ParameterParts {
 public:
  /// Those that there are: one part of a parameter each, with as many dimensions as it, of which
  /// all but the last are 1, in float32 or wider.
  torch::OrderedDict<std::string, torch::Tensor> pieces() const;

  /// Waits until what is updated has its gradients, unless that was done since the last backward;
  /// the parameters have none then.
  virtual void reduce() = 0;
  virtual void clear_gradients() = 0;
  /// What was updated becomes the parameters, on all ranks, and another backward may follow.
  /// Collective.
  virtual void publish() = 0;
  /// What is updated becomes that of the whole `weights`, by name.
  virtual void take_weights(const torch::OrderedDict<std::string, torch::Tensor>& weights) = 0;
};

/// Throws InputError, which begins with `who`, for two that are on different devices.
void check_one_device(const PlannedParameter& one, const PlannedParameter& other, const char* who);

/// The same for parameters that cannot be divided.
void check_divisible_parameters(const std::vector<PlannedParameter>& parameters, const char* who);

/// This rank's part of `whole`, however it lies in memory, becomes its piece. Throws InputError for
/// one of another shape.
void copy_parts(const ParameterStore& store, std::size_t parameter, const torch::Tensor& whole);

}  // namespace sullae
