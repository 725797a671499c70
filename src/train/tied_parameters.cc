#include "train/tied_parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "sullae/error.h"
#include "sullae/torch.h"
#include "torch/agreement.h"

namespace sullae::train {
namespace {

// A parameter's ranks, and what it is on each.
struct Holders {
  std::vector<int> ranks;
  std::vector<std::string> kinds;
  std::vector<std::string> firsts;  // of the names that it has there
};

// By name.
std::map<std::string, Holders> holders_of(const torch::nn::Module& model, const World& stages) {
  std::string mine;
  std::map<const void*, std::string> firsts;
  for (const auto& item : model.named_parameters()) {
    const auto first = firsts.emplace(item.value().unsafeGetTensorImpl(), item.key()).first;
    mine +=
        fmt::format("{}\n{} [{}]{}\n{}\n", item.key(), c10::toString(item.value().scalar_type()),
                    fmt::join(item.value().sizes(), ", "),
                    item.value().requires_grad() ? "" : ", frozen", first->second);
  }
  std::map<std::string, Holders> holders;
  const auto all = allgather_texts(stages, mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::istringstream lines(all[rank]);
    for (std::string name, kind, first;
         std::getline(lines, name) && std::getline(lines, kind) && std::getline(lines, first);) {
      Holders& its = holders[name];
      its.ranks.push_back(static_cast<int>(rank));
      its.kinds.push_back(kind);
      its.firsts.push_back(first);
    }
  }
  return holders;
}

}  // namespace

std::set<std::string> names_of_ranks_before(const torch::nn::Module& model, const World& stages) {
  std::set<std::string> names;
  for (const auto& [name, holders] : holders_of(model, stages)) {
    const bool is_here = std::ranges::count(holders.ranks, stages.rank()) > 0;
    if (is_here && holders.ranks.front() < stages.rank()) names.insert(name);
  }
  return names;
}

TiedParameters::TiedParameters(const torch::nn::Module& model, const World& stages) {
  const auto parameters = model.named_parameters();
  std::map<std::vector<int>, std::optional<World>> worlds;
  for (const auto& [name, holders] : holders_of(model, stages)) {
    if (holders.ranks.size() == 1) continue;
    for (std::size_t i = 1; i < holders.kinds.size(); ++i) {
      if (holders.kinds[i] != holders.kinds[0])
        throw InputError(fmt::format(
            "a model in stages: parameter '{}' is {} on the rank of stage {}, and {} on that of "
            "stage {}: expected one, or other names",
            name, holders.kinds[0], holders.ranks[0], holders.kinds[i], holders.ranks[i]));
      if (holders.firsts[i] != holders.firsts[0])
        throw InputError(fmt::format(
            "a model in stages: parameter '{}' is '{}' on the rank of stage {}, and '{}' on that "
            "of "
            "stage {}: expected the same names of one parameter on both",
            name, holders.firsts[0], holders.ranks[0], holders.firsts[i], holders.ranks[i]));
    }
    if (holders.firsts[0] != name) continue;  // another name of one that is tied
    const auto world = worlds.find(holders.ranks);
    if (world == worlds.end()) worlds[holders.ranks] = stages.process_set(holders.ranks);
    const auto& its = worlds[holders.ranks];
    if (!its) continue;
    own_.push_back({.name = name, .parameter = parameters[name], .holders = *its});
    if (its->rank() > 0) of_ranks_before_.insert(name);
  }
}

void TiedParameters::start_equal() const {
  const torch::NoGradGuard guard;
  for (const Tied& tied : own_) {
    torch::Tensor values = tied.parameter.detach();
    broadcast(values, 0, tied.holders);
  }
}

std::set<std::string> TiedParameters::names() const {
  std::set<std::string> names;
  for (const Tied& tied : own_) names.insert(tied.name);
  return names;
}

void TiedParameters::add_up_gradients(
    const torch::OrderedDict<std::string, torch::Tensor>& updated) const {
  const torch::NoGradGuard guard;
  for (const Tied& tied : own_) {
    const torch::Tensor* const found = updated.find(tied.name);
    if (found == nullptr) continue;
    const torch::Tensor& weight = *found;
    torch::Tensor& gradient = weight.mutable_grad();
    std::int64_t is_there = gradient.defined() ? 1 : 0;
    tied.holders.allreduce(&is_there, &is_there, 1, DataType::int64, ReduceOp::max);
    if (is_there == 0) continue;  // frozen, or not reached: it stays as it is
    if (!gradient.defined()) gradient = torch::zeros_like(weight);
    allreduce(gradient, ReduceOp::sum, tied.holders);
  }
}

}  // namespace sullae::train
