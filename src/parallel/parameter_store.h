// Parameters in parts, as the optimizer of the parts sees them: the seam, behind which stages differ.
#pragma once

#include <torch/ordered_dict.h>
#include <torch/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "parallel/named_state.h"
#include "sullae/sullae.h"
#include "torch/bucket_plan.h"

namespace sullae {

/// A range of a parameter's elements, as they lie in memory, and the rank that has them.
struct Part {
  int rank = 0;
  std::size_t from = 0;
  std::size_t to = 0;
};

/// Of the parameter at `place` in memory that parameters of `sizes` share, of which each rank has `counts`; see pieces_of().
std::vector<Part> parts_at(std::size_t place, const std::vector<std::size_t>& sizes,
                           std::size_t element_bytes, const std::vector<std::size_t>& counts);

/// What weights of a type are updated in.
torch::ScalarType updated_type(torch::ScalarType type);

/// Used by the thread that trains.
class ParameterStore {
 public:
  virtual ~ParameterStore() = default;

  virtual const World& world() const = 0;
  /// Those that are trained, in their order: their names, shapes and types.
  virtual const std::vector<PlannedParameter>& all() const = 0;
  /// What belongs to them, and is not trained: whole on every rank, under the names that it has with them.
  virtual std::vector<NamedState> others() const { return {}; }
  /// Whether every rank has all of it, as it is updated.
  virtual bool is_whole(std::size_t parameter) const = 0;
  /// The parts of one, in the order of elements.
  virtual std::vector<Part> parts_of(std::size_t parameter) const = 0;
  /// What this rank updates of one, in float32 or wider: as many dimensions as the parameter, of which all but the last are
  /// 1. Undefined where it has nothing of it.
  virtual const torch::Tensor& piece_of(std::size_t parameter) const = 0;
  torch::OrderedDict<std::string, torch::Tensor> pieces() const;

  /// Waits until what is updated has its gradients, unless that was done since the last backward; the parameters have none then.
  virtual void reduce() = 0;
  virtual void clear_gradients() = 0;
  /// What was updated becomes the parameters, on all ranks, and another backward may follow. Collective.
  virtual void publish() = 0;
  /// The same where pieces were set from without, and no step was done. Collective.
  virtual void refresh() = 0;
  /// What is updated becomes that of the whole `weights`, by name.
  virtual void take_weights(const torch::OrderedDict<std::string, torch::Tensor>& weights) = 0;
};

/// Throws InputError, which begins with `who`, for parameters that cannot be divided.
void check_divisible_parameters(const std::vector<PlannedParameter>& parameters, const char* who);

/// This rank's parts of `whole`, one after the other, become `piece`.
void copy_parts(const ParameterStore& store, std::size_t parameter, const torch::Tensor& whole);

}  // namespace sullae
