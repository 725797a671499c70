// The ranks of a world as a grid, whose rows and columns are worlds of their own.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sullae/sullae.h"

namespace sullae {

/// Ranks in several dimensions, such as data parallel × tensor parallel:
///
///   Mesh mesh(world, {{"dp", 2}, {"tp", 4}});
///   DistributedOptimizer optimizer(sgd, model->named_parameters(), {}, mesh["dp"]);
///
/// Ranks of one host are neighbours along the last dimension, where ranks talk most. Any thread may
/// call; copies refer to the same worlds.
class Mesh {
 public:
  struct Dimension {
    std::string name;
    int size = 1;
    bool operator==(const Dimension&) const = default;
  };

  /// Collective. Throws InputError for dimensions that do not make up the world, MismatchError
  /// where ranks give different ones.
  Mesh(const World& world, std::vector<Dimension> dimensions);

  /// The ranks that differ from this one in that dimension alone; its rank there is its coordinate.
  /// Throws InputError for a dimension that there is not.
  const World& operator[](std::string_view dimension) const;
  /// The ranks that differ from this one in those dimensions alone, as they are ranked in world().
  /// Collective over the mesh. Throws InputError for a dimension that there is not.
  World across(const std::vector<std::string>& dimensions) const;
  const World& world() const { return world_; }
  const std::vector<Dimension>& dimensions() const { return dimensions_; }

 private:
  std::size_t index_of(std::string_view dimension) const;

  World world_;
  std::vector<Dimension> dimensions_;
  std::vector<World> worlds_;                  // by dimension
  std::vector<std::vector<int>> coordinates_;  // by rank, of each dimension
};

/// "dp=2,pp=2,tp=2". Throws InputError that says what was expected.
std::vector<Mesh::Dimension> parse_mesh(std::string_view text);
std::string to_text(const std::vector<Mesh::Dimension>& dimensions);

}  // namespace sullae
