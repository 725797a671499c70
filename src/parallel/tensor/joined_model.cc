#include "parallel/tensor/joined_model.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "parallel/checkpoint/checkpoint.h"
#include "parallel/named_state.h"
#include "sullae/parallel/stage_numbers.h"
#include "sullae/torch.h"
#include "torch/agreement.h"
#include "torch/tensor_type.h"

namespace sullae {
namespace {

using Json = nlohmann::json;
using Kind = NamedState::Kind;

// What a rank has, where the parts of a checkpoint do not say it: modules, buffers, and all names
// of parameters, with the first of those that a parameter has.
Json told_by(const std::vector<OwnModule>& modules) {
  Json told{{"problem", ""}, {"state", Json::array()}};
  std::map<const void*, std::string> firsts;
  for (const OwnModule& own : modules) {
    const auto* const numbers = dynamic_cast<const StageNumbers*>(&own.module);
    const auto add = [&](const char* kind, const std::string& in_module) -> Json& {
      const int stage =
          numbers == nullptr || in_module.empty() ? own.stage : numbers->stage_of(in_module);
      told["state"].push_back(
          {{"kind", kind},
           {"name", in_module.empty() ? own.name : name_in(own.name, in_module)},
           {"stage", stage}});
      return told["state"].back();
    };
    if (!own.name.empty()) add("module", "");
    for (const NamedState& one : state_of(own.module)) {
      const auto name = name_in(own.name, one.name);
      if (one.kind == Kind::module) add("module", one.name);
      if (one.kind != Kind::buffer) continue;
      try {
        data_type(one.tensor.scalar_type(), "a buffer");
      } catch (const InputError& error) {  // for all to hear of
        told["problem"] =
            fmt::format("a checkpoint of a model in parts: '{}': {}", name, error.what());
      }
      Json& its = add("buffer", one.name);
      its["type"] = static_cast<int>(one.tensor.scalar_type());
      its["shape"] = one.tensor.sizes().vec();
    }
    for (const auto& item : own.module.named_parameters()) {
      const auto name = name_in(own.name, item.key());
      const auto first = firsts.emplace(item.value().unsafeGetTensorImpl(), name).first;
      add("parameter", item.key())["is"] = first->second;
    }
  }
  return told;
}

// What all have, of lower stages first, and the rank whose it is.
std::vector<std::pair<Json, int>> state_of_all(const std::vector<OwnModule>& own,
                                               const World& world) {
  std::vector<std::pair<Json, int>> all;
  const auto texts = allgather_texts(world, told_by(own).dump());
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const Json its = Json::parse(texts[rank]);
    if (its.at("problem") != "") throw InputError(its.at("problem").get<std::string>());
    for (const Json& one : its.at("state")) all.emplace_back(one, static_cast<int>(rank));
  }
  std::ranges::stable_sort(
      all, {}, [](const auto& one) { return one.first.at("stage").template get<int>(); });
  return all;
}

std::optional<Sharded> sharded(const PartsOptimizer* optimizer) {
  if (optimizer == nullptr) return std::nullopt;
  return Sharded{optimizer->optimizer, optimizer->make};
}

}  // namespace

JoinedModel::JoinedModel(const std::vector<OwnModule>& own, const UpdatedByName& updated,
                         const World& world)
    : world_(world) {
  std::vector<OwnParameter> own_parameters;
  std::map<std::string, torch::Tensor> own_buffers;
  for (const OwnModule& one : own) {
    add_parameters(own_parameters, one.module, updated, one.name);
    for (const auto& item : one.module.named_buffers())
      own_buffers[name_in(one.name, item.key())] = item.value();
  }
  parts_.emplace(own_parameters, world);
  std::map<std::string, torch::Tensor> parameters;
  for (const PlannedParameter& one : parts_->all()) parameters[one.name] = one.tensor;

  std::vector<NamedState> state;
  std::set<std::pair<std::string, std::string>> there;
  std::map<std::string, std::string> firsts;  // by each name of a parameter
  for (const auto& [one, rank] : state_of_all(own, world)) {
    const auto kind = one.at("kind").get<std::string>();
    const auto name = one.at("name").get<std::string>();
    const auto is = one.value("is", std::string());
    if (kind == "parameter" && firsts.emplace(name, is).first->second != is)
      throw InputError(
          fmt::format("a checkpoint of a model in parts: parameter '{}' is also called '{}' on one "
                      "rank, and not on rank {}: expected the same names on all that have it",
                      name, std::max(firsts.at(name), is), rank));
    if (!there.emplace(kind, name).second) continue;
    if (kind == "module") {
      state.push_back({.kind = Kind::module, .name = name});
    } else if (kind == "parameter") {
      state.push_back({Kind::parameter, name, parameters.at(is)});
    } else {
      const auto found = own_buffers.find(name);
      const auto tensor =
          found != own_buffers.end()
              ? found->second
              : torch::zeros(one.at("shape").get<std::vector<std::int64_t>>(),
                             static_cast<torch::ScalarType>(one.at("type").get<int>()));
      buffers_.emplace_back(tensor, rank);
      state.push_back({Kind::buffer, name, tensor});
    }
  }
  module_ = module_of(state);
  std::vector<std::string> names;
  for (const auto& item : module_->named_parameters()) names.push_back(item.key());
  parts_->put_in_order(names);
}

void JoinedModel::save(const std::filesystem::path& file, const PartsOptimizer* optimizer,
                       const CheckpointOptions& options) {
  gather_buffers();
  const auto own = sharded(optimizer);
  save_parts(file, *module_, *parts_, own ? &*own : nullptr, options);
}

CheckpointMetadata JoinedModel::load(const std::filesystem::path& file,
                                     const PartsOptimizer* optimizer) {
  const auto own = sharded(optimizer);
  return load_parts(file, *module_, *parts_, own ? &*own : nullptr);
}

// Rank 0's copies become what others have.
void JoinedModel::gather_buffers() {
  for (auto& [tensor, holder] : buffers_) {
    if (holder == kCheckpointRoot) continue;
    if (world_.rank() == holder) send(tensor, kCheckpointRoot, kCheckpointTag, world_);
    if (world_.rank() == kCheckpointRoot) receive(tensor, holder, kCheckpointTag, world_);
  }
}

}  // namespace sullae
