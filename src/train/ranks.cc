#include "train/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "sullae/error.h"

namespace sullae::train {
namespace {

constexpr const char* kDataParallel = "dp";
constexpr const char* kTensorParallel = "tp";

int size_of(const std::vector<Mesh::Dimension>& mesh, const char* name) {
  const auto found = std::ranges::find(mesh, name, &Mesh::Dimension::name);
  return found == mesh.end() ? 1 : found->size;
}

[[noreturn]] void refuse(const TrainOptions& options, const std::string& why) {
  throw InputError(fmt::format("--mesh {}: {}", options.mesh, why));
}

// As they were given.
std::vector<Mesh::Dimension> dimensions_of(const TrainOptions& options) {
  if (options.mesh.empty()) return {};
  std::vector<Mesh::Dimension> given;
  try {
    given = parse_mesh(options.mesh);
  } catch (const InputError&) {
    refuse(options, "expected dimensions and how many ranks each has, as in dp=2,tp=4");
  }
  for (const auto& [name, size] : given) {
    if (name != kDataParallel && name != kTensorParallel)
      refuse(
          options,
          fmt::format("there is no dimension '{}': expected dp (samples) and tp (layers)", name));
    if (std::ranges::count(given, name, &Mesh::Dimension::name) > 1)
      refuse(options, fmt::format("has '{}' twice", name));
  }
  return given;
}

}  // namespace

std::optional<std::vector<Mesh::Dimension>> mesh_of(const TrainOptions& options, int ranks) {
  const auto given = dimensions_of(options);
  if (given.empty()) return std::nullopt;
  const int tensor = size_of(given, kTensorParallel);
  const bool says_data = std::ranges::count(given, kDataParallel, &Mesh::Dimension::name) > 0;
  const int data = says_data ? size_of(given, kDataParallel) : std::max(ranks / tensor, 1);
  const std::int64_t product = static_cast<std::int64_t>(data) * tensor;
  if (product != ranks)
    refuse(options, fmt::format("there {} {} rank{}: expected {}", ranks == 1 ? "is" : "are", ranks,
                                ranks == 1 ? "" : "s",
                                says_data ? fmt::to_string(product)
                                          : fmt::format("a multiple of {}", tensor)));
  // Ranks of a host are neighbours along the last one, whose ranks wait for each other most.
  return std::vector<Mesh::Dimension>{{kDataParallel, data}, {kTensorParallel, tensor}};
}

bool divides_layers(const TrainOptions& options) {
  return size_of(dimensions_of(options), kTensorParallel) > 1;
}

int data_ranks(const TrainOptions& options, int ranks) {
  const auto mesh = mesh_of(options, ranks);
  return mesh ? size_of(*mesh, kDataParallel) : ranks;
}

Ranks::Ranks(const TrainOptions& options, const World& world) : all(world), data(world) {
  const auto dimensions = mesh_of(options, world.size());
  if (!dimensions) return;
  const Mesh mesh(world, *dimensions);
  data = mesh[kDataParallel];
  if (mesh[kTensorParallel].size() > 1) tensor = mesh[kTensorParallel];
}

}  // namespace sullae::train
