#include "parallel/tensor/updated_pieces.h"

#include <fmt/format.h>

#include <map>

#include "parallel/sharded_within.h"
#include "torch/agreement.h"

namespace sullae {
namespace {

using Parameters = torch::OrderedDict<std::string, torch::Tensor>;

// The first of each.
std::map<const void*, std::string> names_in(const Parameters& parameters) {
  std::map<const void*, std::string> names;
  for (const auto& item : parameters) names.emplace(item.value().unsafeGetTensorImpl(), item.key());
  return names;
}

}  // namespace

Parameters pieces_called_as(const Parameters& parameters, const ParameterStore& store) {
  const auto names = names_in(parameters);
  Parameters pieces;
  for (std::size_t i = 0; i < store.all().size(); ++i) {
    const PlannedParameter& one = store.all()[i];
    const auto name = names.find(one.tensor.unsafeGetTensorImpl());
    if (store.piece_of(i).defined())
      pieces.insert(name == names.end() ? one.name : name->second, store.piece_of(i));
  }
  return pieces;
}

UpdatedByName pieces_by_name(const torch::OrderedDict<std::string, torch::Tensor>& parameters,
                             const ParameterStore& store, const World& world) {
  UpdatedByName updated;
  std::string problem;
  const auto names = names_in(parameters);
  for (std::size_t i = 0; i < store.all().size(); ++i) {
    if (!store.is_trained(i)) continue;
    const PlannedParameter& one = store.all()[i];
    const auto name = names.find(one.tensor.unsafeGetTensorImpl());
    if (name == names.end()) {
      problem =
          fmt::format("the optimizer has a parameter '{}', which the model has not", one.name);
      break;
    }
    IndexRange elements;
    for (const Part& part : store.parts_of(i)) {
      if (part.rank == store.world().rank())
        elements = {static_cast<std::int64_t>(part.from), static_cast<std::int64_t>(part.to)};
    }
    updated[name->second] = {.tensor = store.piece_of(i), .elements = elements};
  }
  for (const auto& item : parameters) {
    const auto name = names.at(item.value().unsafeGetTensorImpl());
    if (problem.empty() && item.value().requires_grad() && !updated.contains(name))
      problem = fmt::format("the model has a parameter '{}', which the optimizer has not", name);
  }
  if (!problem.empty())
    problem = fmt::format(
        "a checkpoint of a model in parts: {}: expected an optimizer of all parameters that this "
        "rank has",
        problem);
  throw_on_all(world, problem);
  return updated;
}

PartsOptimizer as_parts(const Sharded& sharded) {
  return {.optimizer = sharded.optimizer, .make = sharded.make};
}

}  // namespace sullae
