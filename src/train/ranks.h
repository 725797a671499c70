// The ranks that train a model, and what they are to each other: --mesh.
#pragma once

#include <optional>
#include <vector>

#include "sullae/parallel/mesh.h"
#include "sullae/sullae.h"
#include "train/options.h"

namespace sullae::train {

/// options.mesh of so many ranks, in which dp is what the others leave where it is not said;
/// nothing where it is empty. Throws InputError, naming the flag.
std::optional<std::vector<Mesh::Dimension>> mesh_of(const TrainOptions& options, int ranks);
/// Whether it has ranks that do not have the whole model.
bool divides_model(const TrainOptions& options);
/// Whether these have other parts of the same layers.
bool has_tensor_parts(const TrainOptions& options);
/// Whether these have other layers each.
bool has_stages(const TrainOptions& options);
/// Whether units' parameters are divided among some of the ranks, and others have the same:
/// shard=N.
bool divides_among_some(const TrainOptions& options);
/// Those of them that divide the samples of a step.
int data_ranks(const TrainOptions& options, int ranks);

struct Ranks {
  /// Collective.
  Ranks(const TrainOptions& options, const World& world);

  /// All.
  World all;
  /// Those that have the same parts of the model as this one, and other samples.
  World data;
  /// Those that have the same samples, and other parts of the same layers; none where each has all
  /// of them.
  std::optional<World> tensor;
  /// Those that have the same samples, and other layers, in their order; none where each has all.
  std::optional<World> stages;
  /// Those that have each unit's parameters together, and those that have the same parts of them;
  /// none where the first are all.
  std::optional<World> units;
  std::optional<World> replicas;
  /// Those that have the whole model together; none where each has all of it.
  std::optional<World> model;
  /// Those that have other samples, or other layers, and draw different numbers therefore.
  World drawing;
  /// Which of them this is: the same for those that have parts of the same layers.
  int drawing_number() const {
    return stages ? data.rank() * stages->size() + stages->rank() : data.rank();
  }
};

}  // namespace sullae::train
