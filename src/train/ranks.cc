#include "train/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/counted.h"
#include "sullae/error.h"

namespace sullae::train {
namespace {

constexpr const char* kDataParallel = "dp";
constexpr const char* kPipeline = "pp";
constexpr const char* kShard = "shard";
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
    if (name != kDataParallel && name != kPipeline && name != kTensorParallel && name != kShard)
      refuse(options, fmt::format("there is no dimension '{}': expected dp (samples), pp (layers "
                                  "one behind the other), tp (parts of layers) and shard (parts of "
                                  "parameters, with --shard parameters)",
                                  name));
    if (std::ranges::count(given, name, &Mesh::Dimension::name) > 1)
      refuse(options, fmt::format("has '{}' twice", name));
  }
  return given;
}

}  // namespace

std::optional<std::vector<Mesh::Dimension>> mesh_of(const TrainOptions& options, int ranks) {
  const auto given = dimensions_of(options);
  if (given.empty()) return std::nullopt;
  const int stages = size_of(given, kPipeline);
  const int tensor = size_of(given, kTensorParallel);
  const int shard = size_of(given, kShard);
  // More than there are is too many, however many.
  static constexpr std::int64_t kMany = std::int64_t{1} << 31;
  const auto times = [](std::int64_t one, std::int64_t other) {
    return std::min(one * other, kMany);
  };
  const std::int64_t of_a_model = times(times(stages, tensor), shard);
  const bool says_data = std::ranges::count(given, kDataParallel, &Mesh::Dimension::name) > 0;
  const int data = says_data ? size_of(given, kDataParallel)
                             : static_cast<int>(std::max<std::int64_t>(ranks / of_a_model, 1));
  const std::int64_t product = times(data, of_a_model);
  if (product != ranks)
    refuse(options,
           fmt::format(
               "there {} {}: expected {}", ranks == 1 ? "is" : "are", counted(ranks, "rank"),
               says_data ? fmt::to_string(product) : fmt::format("a multiple of {}", of_a_model)));
  // Ranks of a host are neighbours along the last one, whose ranks wait for each other most.
  return std::vector<Mesh::Dimension>{
      {kDataParallel, data}, {kPipeline, stages}, {kShard, shard}, {kTensorParallel, tensor}};
}

bool divides_model(const TrainOptions& options) {
  return has_stages(options) || has_tensor_parts(options);
}

bool has_tensor_parts(const TrainOptions& options) {
  return size_of(dimensions_of(options), kTensorParallel) > 1;
}

bool has_stages(const TrainOptions& options) {
  return size_of(dimensions_of(options), kPipeline) > 1;
}

bool divides_among_some(const TrainOptions& options) {
  return size_of(dimensions_of(options), kShard) > 1;
}

int data_ranks(const TrainOptions& options, int ranks) {
  const auto mesh = mesh_of(options, ranks);
  return mesh ? size_of(*mesh, kDataParallel) * size_of(*mesh, kShard) : ranks;
}

Ranks::Ranks(const TrainOptions& options, const World& world)
    : all(world), data(world), drawing(world) {
  const auto dimensions = mesh_of(options, world.size());
  if (!dimensions) return;
  const Mesh mesh(world, *dimensions);
  if (mesh[kShard].size() > 1) {
    units = mesh[kShard];
    replicas = mesh[kDataParallel];
  }
  if (!divides_model(options)) return;
  data = drawing = mesh.across({kDataParallel, kShard});
  if (mesh[kTensorParallel].size() > 1) model = tensor = mesh[kTensorParallel];
  if (mesh[kPipeline].size() == 1) return;
  stages = mesh[kPipeline];
  model = mesh.across({kPipeline, kTensorParallel});
  drawing = mesh.across({kDataParallel, kPipeline});
}

}  // namespace sullae::train
