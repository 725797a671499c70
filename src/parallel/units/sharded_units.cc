#include "sullae/parallel/sharded_units.h"

#include "parallel/checkpoint/checkpoint.h"
#include "parallel/sharded_within.h"
#include "parallel/units/unit_parameters.h"

namespace sullae {

ShardedUnits::ShardedUnits(const World& world, ShardedUnitsOptions options)
    : parameters_(std::make_shared<UnitParameters>(world, std::nullopt, options)) {}
ShardedUnits::ShardedUnits(const World& world, const World& replicas, ShardedUnitsOptions options)
    : parameters_(std::make_shared<UnitParameters>(world, replicas, options)) {}

std::size_t ShardedUnits::add(torch::nn::Module& module, const std::string& name) {
  return parameters_->add(module, name);
}

const World& ShardedUnits::world() const { return parameters_->world(); }
bool ShardedUnits::has_replicas() const { return parameters_->replicas() != nullptr; }
torch::Device ShardedUnits::device() const {
  const auto& all = parameters_->all();
  return all.empty() ? torch::Device(torch::kCPU) : all.front().tensor.device();
}
const ShardedUnitsOptions& ShardedUnits::options() const { return parameters_->options(); }

std::vector<std::string> ShardedUnits::parameter_names() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < parameters_->all().size(); ++i) {
    if (parameters_->is_trained(i)) names.push_back(parameters_->all()[i].name);
  }
  return names;
}

ParameterStore& store_of(ShardedUnits& units) { return *units.parameters_; }

void save_weights(const std::filesystem::path& file, const torch::nn::Module& module,
                  ShardedUnits& units, const CheckpointOptions& options) {
  save_parts(file, module, store_of(units), nullptr, options);
}

CheckpointMetadata load_weights(const std::filesystem::path& file, torch::nn::Module& module,
                                ShardedUnits& units) {
  return load_parts(file, module, store_of(units), nullptr);
}

}  // namespace sullae
