#include "parallel/tensor/module_parts.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <set>

#include "parallel/tensor/parts.h"
#include "sullae/error.h"

namespace sullae {
namespace {

void check_piece(const std::string& name, const torch::Tensor& piece) {
  if (!piece.is_cpu())
    throw InputError(
        fmt::format("a checkpoint of layers in parts: parameter '{}' is on {}: expected it in host "
                    "memory",
                    name, piece.device().str()));
  if (!piece.is_contiguous())
    throw InputError(fmt::format(
        "a checkpoint of layers in parts: parameter '{}' is a view with gaps, or laid out "
        "otherwise than row by row",
        name));
}

void check_ascending(const std::string& name, const ParameterPart& part) {
  for (std::size_t i = 1; i < part.ranges.size(); ++i) {
    if (part.ranges[i].from < part.ranges[i - 1].to)
      throw InputError(fmt::format(
          "a checkpoint of layers in parts: the ranges of parameter '{}' do not ascend", name));
  }
}

// The product of the sizes in [from, to).
std::int64_t elements_of(const torch::Tensor& of, std::int64_t from, std::int64_t to) {
  std::int64_t elements = 1;
  for (std::int64_t dim = from; dim < to; ++dim) elements *= of.size(dim);
  return elements;
}

}  // namespace

ModuleParts::ModuleParts(const torch::nn::Module& module,
                         const std::map<std::string, torch::Tensor>& masters, const World& world)
    : world_(world) {
  const auto parts = sullae::parts_of(module);
  std::set<const void*> there;
  for (const auto& item : module.named_parameters()) {
    // One that has several names is one.
    if (!there.insert(item.value().unsafeGetTensorImpl()).second) continue;
    const auto master = masters.find(item.key());
    const torch::Tensor& piece = master == masters.end() ? item.value() : master->second;
    check_piece(item.key(), piece);
    all_.push_back({.name = item.key(), .tensor = item.value()});
    pieces_.push_back(piece);
    const auto found = parts.find(item.key());
    Division division;
    auto shape = piece.sizes().vec();
    if (found != parts.end()) {
      division.dim = found->second.dim;
      shape[static_cast<std::size_t>(division.dim)] = found->second.whole;
      check_ascending(item.key(), found->second);
      division.ranges = ranges_of_all(found->second, world);
      std::ranges::sort(division.ranges, {}, [](const auto& one) { return one.first.from; });
    }
    outlines_.push_back(
        torch::empty(shape, torch::device(torch::kMeta).dtype(piece.scalar_type())));
    divisions_.push_back(std::move(division));
  }
}

std::vector<Part> ModuleParts::parts_of(std::size_t parameter) const {
  const Division& division = divisions_[parameter];
  const torch::Tensor& whole = outlines_[parameter];
  std::vector<Part> parts;
  if (division.ranges.empty()) {
    for (int rank = 0; rank < world_.size() && whole.numel() > 0; ++rank)
      parts.push_back({.rank = rank, .from = 0, .to = static_cast<std::size_t>(whole.numel())});
    return parts;
  }
  const std::int64_t before = elements_of(whole, 0, division.dim);
  const std::int64_t behind = elements_of(whole, division.dim + 1, whole.dim());
  for (std::int64_t row = 0; row < before; ++row) {
    const std::int64_t start = row * whole.size(division.dim) * behind;
    for (const auto& [range, rank] : division.ranges) {
      if (range.from == range.to) continue;
      parts.push_back({.rank = rank,
                       .from = static_cast<std::size_t>(start + range.from * behind),
                       .to = static_cast<std::size_t>(start + range.to * behind)});
    }
  }
  return parts;
}

}  // namespace sullae
