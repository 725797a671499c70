// Parameters of which ranks have parts, as checkpoints see them: the seam, behind which divisions
// differ.
#pragma once

#include <torch/types.h>

#include <cstddef>
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

/// All of it, of the first rank; nothing of what has no elements.
inline std::vector<Part> of_first(const torch::Tensor& whole) {
  const auto elements = static_cast<std::size_t>(whole.numel());
  if (elements == 0) return {};
  return {{.rank = 0, .from = 0, .to = elements}};
}

/// What weights of a type are updated in.
inline torch::ScalarType updated_type(torch::ScalarType type) {
  return type == torch::kBFloat16 || type == torch::kFloat16 ? torch::kFloat32 : type;
}

/// Used by the thread that trains.
class ParameterParts {
 public:
  virtual ~ParameterParts() = default;

  virtual const World& world() const = 0;
  /// The ranks that have the same parts in other worlds; null for none.
  virtual const World* replicas() const { return nullptr; }
  /// Those that the optimizer is of, trained or not, in its order: their names, and the tensors
  /// that modules have.
  virtual const std::vector<PlannedParameter>& all() const = 0;
  /// One that is laid out as the whole of it; it need not be there.
  virtual torch::Tensor outline_of(std::size_t parameter) const { return all()[parameter].tensor; }
  /// What else belongs to them, buffers above all: whole on every rank, under the names that it has
  /// with them.
  virtual std::vector<NamedState> others() const { return {}; }
  /// Nothing is kept of those that are not. What is whole of them is the first rank's, and nobody
  /// has a piece of it.
  virtual bool is_trained(std::size_t parameter) const {
    return all()[parameter].tensor.requires_grad();
  }
  /// Whether every rank has all of it, as it is updated, in its tensor, and may write any part.
  virtual bool is_whole(std::size_t parameter) const = 0;
  /// What it is updated in, and stored.
  virtual torch::ScalarType type_of(std::size_t parameter) const {
    const auto type = all()[parameter].tensor.scalar_type();
    return is_whole(parameter) ? type : updated_type(type);
  }
  /// The parts of one, in the order of elements; where several ranks have the same, these stand
  /// together. A rank's parts are its piece, one behind the other.
  virtual std::vector<Part> parts_of(std::size_t parameter) const = 0;
  /// What this rank updates of one, without gaps, as the optimizer has it; undefined where it has
  /// nothing of it.
  virtual const torch::Tensor& piece_of(std::size_t parameter) const = 0;

  /// Pieces were set from without, and become the parameters. Collective.
  virtual void refresh() = 0;
};

}  // namespace sullae
