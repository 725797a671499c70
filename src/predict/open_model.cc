#include "predict/open_model.h"

#include <torch/torch.h>

namespace sullae::predict {
namespace {

serve::ModelConfig config_of(const train::FoundModel& found, const PredictOptions& options) {
  auto config = serve::read_model_config(found.config);
  if (!options.device.empty()) config.device = options.device;
  return config;
}

}  // namespace

OneWay::OneWay() { torch::set_num_threads(1); }

OpenModel::OpenModel(const PredictOptions& options)
    : found(train::find_model(options.model)),
      config(config_of(found, options)),
      model(found.file, config) {}

std::vector<std::string> OpenModel::output_names() const {
  std::vector<std::string> names;
  for (const auto& one : model.codec().outputs()) names.push_back(one.name);
  return names;
}

}  // namespace sullae::predict
