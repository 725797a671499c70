#include "parallel/tensor/model_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "parallel/named_state.h"
#include "parallel/tensor/part_ranges.h"
#include "parallel/tensor/parts.h"
#include "torch/agreement.h"

namespace sullae {
namespace {

using Json = nlohmann::json;

std::string about(const std::string& name) {
  return fmt::format("a checkpoint of a model in parts: parameter '{}' ", name);
}

// Why it has no place in a checkpoint; empty: it has.
std::string problem_with(const OwnParameter& own) {
  const torch::Tensor& updated = own.updated.tensor;
  if (!own.tensor.is_contiguous() || (updated.defined() && !updated.is_contiguous()))
    return about(own.name) + "is a view with gaps, or laid out otherwise than row by row";
  for (std::size_t i = 1; own.part && i < own.part->ranges.size(); ++i) {
    if (own.part->ranges[i].from < own.part->ranges[i - 1].to)
      return about(own.name) + "has ranges that do not ascend";
  }
  return {};
}

// A parameter as its holders tell the others.
struct Told {
  std::string name;
  torch::ScalarType type = torch::kFloat32;
  bool is_trained = true;
  std::vector<std::int64_t> shape;  // of the whole
  std::optional<std::int64_t> dim;
  std::vector<IndexRange> ranges;
  std::optional<IndexRange> elements;  // that the rank updates; none: all that it has
};

std::vector<std::pair<std::int64_t, std::int64_t>> as_pairs(const std::vector<IndexRange>& ranges) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (const auto& [from, to] : ranges) pairs.emplace_back(from, to);
  return pairs;
}

std::vector<IndexRange> as_ranges(const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs) {
  std::vector<IndexRange> ranges;
  for (const auto& [from, to] : pairs) ranges.push_back({from, to});
  return ranges;
}

// What a rank's is updated in, be it that this one updates none of it.
torch::ScalarType type_of(const OwnParameter& own) {
  return own.updated.elements ? updated_type(own.tensor.scalar_type())
                              : own.updated.tensor.scalar_type();
}

Json to_json(const OwnParameter& own) {
  const ParameterPart* const part = own.part ? &*own.part : nullptr;
  Json json{{"name", own.name},
            {"type", static_cast<int>(type_of(own))},
            {"is_trained", own.tensor.requires_grad()},
            {"shape", whole_shape(own.tensor, part)}};
  if (own.updated.elements) json["elements"] = as_pairs({*own.updated.elements});
  if (part == nullptr) return json;
  json["dim"] = part->dim;
  json["ranges"] = as_pairs(part->ranges);
  return json;
}

Told told_of(const Json& json) {
  Told told{.name = json.at("name"),
            .type = static_cast<torch::ScalarType>(json.at("type").get<int>()),
            .is_trained = json.at("is_trained"),
            .shape = json.at("shape")};
  if (json.contains("elements")) told.elements = as_ranges(json.at("elements")).front();
  if (!json.contains("dim")) return told;
  told.dim = json.at("dim").get<std::int64_t>();
  told.ranges = as_ranges(json.at("ranges"));
  return told;
}

std::string what_it_is(const Told& told) {
  return fmt::format("{} [{}], {}", c10::toString(told.type), fmt::join(told.shape, ", "),
                     told.dim ? fmt::format("in parts along dimension {}", *told.dim) : "whole");
}

// Each rank's, of each parameter that it has.
std::vector<std::vector<Told>> told_by_all(const std::vector<OwnParameter>& own,
                                           const World& world) {
  Json mine{{"problem", ""}, {"parameters", Json::array()}};
  for (const OwnParameter& one : own) {
    if (mine["problem"] == "") mine["problem"] = problem_with(one);
    mine["parameters"].push_back(to_json(one));
  }
  std::vector<std::vector<Told>> all;
  for (const std::string& text : allgather_texts(world, mine.dump())) {
    const Json its = Json::parse(text);
    if (its.at("problem") != "") throw InputError(its.at("problem").get<std::string>());
    all.emplace_back();
    for (const Json& one : its.at("parameters")) all.back().push_back(told_of(one));
  }
  return all;
}

torch::Tensor without_memory(const Told& told) {
  return torch::empty(told.shape, torch::device(torch::kMeta).dtype(told.type));
}

// Each element one rank's, or several that have the same range.
void check_whole(const Told& told, std::vector<std::pair<IndexRange, int>> ranges) {
  std::ranges::stable_sort(ranges, {},
                           [](const auto& one) { return std::pair(one.first.from, one.first.to); });
  const std::int64_t size = told.shape.at(static_cast<std::size_t>(*told.dim));
  std::int64_t next = 0;
  bool fits = true;
  IndexRange last;
  for (const auto& [range, rank] : ranges) {
    if (range.size() == 0 || range == last) continue;
    fits = fits && range.from == next;
    next = range.to;
    last = range;
  }
  if (fits && next == size) return;
  std::vector<std::string> texts;
  for (const auto& [range, rank] : ranges)
    texts.push_back(fmt::format("rank {} [{}, {})", rank, range.from, range.to));
  throw InputError(
      about(told.name) +
      fmt::format(
          "has {} along dimension {}, of which {}: expected a world whose ranks have all of "
          "it, in parts",
          size, *told.dim, fmt::join(texts, ", ")));
}

// Each element of what ranks have is updated by one, or by several that have the same.
void check_updated(const std::string& name, const std::vector<Part>& parts, std::size_t elements) {
  if (are_whole(parts, elements)) return;
  std::vector<std::string> texts;
  for (const Part& part : parts)
    texts.push_back(fmt::format("rank {} [{}, {})", part.rank, part.from, part.to));
  throw InputError(
      about(name) +
      fmt::format("has {} elements, of which {}: expected a world whose ranks update all of them",
                  elements, fmt::join(texts, ", ")));
}

}  // namespace

UpdatedByName updated_of(const std::map<std::string, torch::Tensor>& masters) {
  UpdatedByName updated;
  for (const auto& [name, master] : masters) updated[name] = {.tensor = master};
  return updated;
}

void add_parameters(std::vector<OwnParameter>& to, const torch::nn::Module& module,
                    const UpdatedByName& updated, const std::string& called) {
  const auto parts = parts_of(module);
  for (const auto& item : module.named_parameters()) {
    // One that has several names is one, also of several modules.
    const bool is_there = std::ranges::any_of(
        to, [&](const OwnParameter& own) { return own.tensor.is_same(item.value()); });
    if (is_there) continue;
    const auto name = name_in(called, item.key());
    const auto found = updated.find(name);
    to.push_back({.name = name,
                  .tensor = item.value(),
                  .updated = found == updated.end() ? Updated{item.value()} : found->second});
    if (const ParameterPart* const part = find_part(parts, item.key())) to.back().part = *part;
  }
}

ModelParts::ModelParts(const std::vector<OwnParameter>& own, const World& world) : world_(world) {
  const auto by_rank = told_by_all(own, world);
  std::map<std::string, std::vector<std::pair<const Told*, int>>> holders;
  std::vector<const Told*> order;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (const Told& told : by_rank[rank]) {
      auto& its = holders[told.name];
      if (its.empty()) order.push_back(&told);
      its.emplace_back(&told, static_cast<int>(rank));
    }
  }
  for (const Told* const told : order) {
    Division division{.dim = told->dim};
    std::vector<std::pair<IndexRange, int>> ranges;
    for (const auto& [its, rank] : holders[told->name]) {
      if (what_it_is(*its) != what_it_is(*told))
        throw InputError(about(told->name) + fmt::format("is {} on one rank, and {} on rank {}",
                                                         what_it_is(*told), what_it_is(*its),
                                                         rank));
      division.holders.push_back({.rank = rank, .ranges = its->ranges, .elements = its->elements});
      for (const IndexRange& range : its->ranges) ranges.emplace_back(range, rank);
    }
    if (told->dim) check_whole(*told, std::move(ranges));
    const auto mine = std::ranges::find(own, told->name, &OwnParameter::name);
    all_.push_back({.name = told->name,
                    .tensor = mine != own.end()
                                  ? mine->tensor
                                  : without_memory(*told).set_requires_grad(told->is_trained)});
    pieces_.push_back(mine != own.end() ? mine->updated.tensor : torch::Tensor());
    outlines_.push_back(without_memory(*told));
    divisions_.push_back(std::move(division));
    check_updated(told->name, parts_of(all_.size() - 1),
                  static_cast<std::size_t>(outlines_.back().numel()));
  }
}

void ModelParts::put_in_order(const std::vector<std::string>& names) {
  const std::size_t count = all_.size();
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < all_.size(); ++i) places[all_[i].name] = i;
  const auto all = std::exchange(all_, {});
  const auto outlines = std::exchange(outlines_, {});
  const auto pieces = std::exchange(pieces_, {});
  const auto divisions = std::exchange(divisions_, {});
  for (const std::string& name : names) {
    const auto found = places.find(name);
    if (found == places.end()) continue;
    all_.push_back(all[found->second]);
    outlines_.push_back(outlines[found->second]);
    pieces_.push_back(pieces[found->second]);
    divisions_.push_back(divisions[found->second]);
  }
  if (all_.size() != count)
    throw Error(fmt::format("a checkpoint of a model in parts: {} parameters in order, of {}",
                            all_.size(), count));
}

std::vector<Part> ModelParts::parts_of(std::size_t parameter) const {
  const Division& division = divisions_[parameter];
  const torch::Tensor& whole = outlines_[parameter];
  std::vector<Part> parts;
  for (const Holder& holder : division.holders) {
    auto ranges = division.dim ? elements_in(whole.sizes(), *division.dim, holder.ranges)
                               : std::vector<IndexRange>{{.from = 0, .to = whole.numel()}};
    if (holder.elements) ranges = some_of(ranges, *holder.elements);
    for (const auto& [from, to] : ranges) {
      if (from < to)
        parts.push_back({.rank = holder.rank,
                         .from = static_cast<std::size_t>(from),
                         .to = static_cast<std::size_t>(to)});
    }
  }
  return cut_alike(std::move(parts));
}

}  // namespace sullae
