#include "sullae/parallel/mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/ascii.h"
#include "base/number.h"
#include "base/split.h"
#include "parallel/grid.h"
#include "torch/agreement.h"

namespace sullae {
namespace {

void check(const std::vector<Mesh::Dimension>& dimensions, int size) {
  long long product = 1;
  for (const Mesh::Dimension& one : dimensions) {
    if (one.name.empty() || one.size < 1)
      throw InputError(
          fmt::format("mesh {}: expected names, and sizes of 1 or more", to_text(dimensions)));
    if (std::ranges::count(dimensions, one.name, &Mesh::Dimension::name) > 1)
      throw InputError(
          fmt::format("mesh {}: has two dimensions '{}'", to_text(dimensions), one.name));
    // More than there are is too many, however many.
    if (product <= size) product *= one.size;
  }
  if (product != size)
    throw InputError(fmt::format("mesh {}: makes {} ranks, and there are {}", to_text(dimensions),
                                 product > size ? "more" : fmt::to_string(product), size));
}

// Of the group that this rank is in.
World world_of_own(const World& world, const std::vector<std::vector<int>>& groups) {
  if (groups.size() == 1) return world;
  // A rank by itself needs nobody's consent.
  if (groups.front().size() == 1) return World::create({});
  std::optional<World> own;
  for (const auto& group : groups) {
    if (auto one = world.process_set(group)) own = std::move(one);
  }
  return *own;
}

// The ranks, host after host.
std::vector<int> by_host(const World& world) {
  const auto size = static_cast<std::size_t>(world.size());
  const std::array<std::int64_t, 2> mine = {world.cross_rank(), world.local_rank()};
  std::vector<std::array<std::int64_t, 2>> all(size);
  world.allgather(mine.data(), all.data(), 2, DataType::int64);
  std::vector<int> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::ranges::sort(ranks, {}, [&](int rank) { return all[static_cast<std::size_t>(rank)]; });
  return ranks;
}

}  // namespace

std::vector<Mesh::Dimension> parse_mesh(std::string_view text) {
  std::vector<Mesh::Dimension> dimensions;
  for (const auto& word : split(text, ',')) {
    const auto part = trimmed(word);
    const auto equals = part.find('=');
    const int size =
        equals == std::string::npos ? 0 : number_in<int>(part.substr(equals + 1)).value_or(0);
    if (equals == 0 || size < 1)
      throw InputError(fmt::format("mesh '{}': expected dimensions, as in dp=2,tp=4", text));
    dimensions.push_back({.name = part.substr(0, equals), .size = size});
  }
  if (dimensions.empty())
    throw InputError(fmt::format("mesh '{}': expected dimensions, as in dp=2,tp=4", text));
  return dimensions;
}

std::string to_text(const std::vector<Mesh::Dimension>& dimensions) {
  std::string text;
  for (const Mesh::Dimension& one : dimensions)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", one.name, one.size);
  return text;
}

Mesh::Mesh(const World& world, std::vector<Dimension> dimensions)
    : world_(world), dimensions_(std::move(dimensions)) {
  check_same_on_all(world, "the mesh", to_text(dimensions_));
  check(dimensions_, world.size());
  std::vector<int> sizes;
  for (const Dimension& one : dimensions_) sizes.push_back(one.size);
  const auto groups = groups_of_grid(sizes, by_host(world));
  coordinates_.resize(static_cast<std::size_t>(world.size()));
  for (const auto& groups_along : groups) {
    for (const auto& group : groups_along) {
      for (std::size_t place = 0; place < group.size(); ++place)
        coordinates_[static_cast<std::size_t>(group[place])].push_back(static_cast<int>(place));
    }
    worlds_.push_back(world_of_own(world, groups_along));
  }
}

std::size_t Mesh::index_of(std::string_view dimension) const {
  const auto found = std::ranges::find(dimensions_, dimension, &Dimension::name);
  if (found == dimensions_.end())
    throw InputError(
        fmt::format("mesh {}: has no dimension '{}'", to_text(dimensions_), dimension));
  return static_cast<std::size_t>(found - dimensions_.begin());
}

const World& Mesh::operator[](std::string_view dimension) const {
  return worlds_[index_of(dimension)];
}

World Mesh::across(const std::vector<std::string>& dimensions) const {
  check_same_on_all(world_, "the dimensions of a world",
                    fmt::format("{}", fmt::join(dimensions, ",")));
  std::set<std::size_t> along;
  for (const std::string& name : dimensions) along.insert(index_of(name));
  // By what their ranks have in common.
  std::map<std::vector<int>, std::vector<int>> groups;
  for (std::size_t rank = 0; rank < coordinates_.size(); ++rank) {
    auto common = coordinates_[rank];
    for (const std::size_t one : along) common[one] = 0;
    groups[common].push_back(static_cast<int>(rank));
  }
  std::vector<std::vector<int>> listed;
  for (auto& [common, group] : groups) listed.push_back(std::move(group));
  return world_of_own(world_, listed);
}

}  // namespace sullae
