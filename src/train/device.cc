#include "train/device.h"

#include <fmt/format.h>

#include "sullae/error.h"
#include "sullae/train/units.h"
#include "train/update/weight_update.h"

namespace sullae::train {

torch::Device device_of(const torch::nn::Module& model) {
  const auto parameters = model.parameters();
  return parameters.empty() ? torch::Device(torch::kCPU) : parameters.front().device();
}

torch::Device device_of(const TrainOptions& options, torch::Device local) {
  const bool in_host_memory = has_parameter_servers();
  if (options.device == "cpu") return torch::kCPU;
  if (options.device == "auto") return in_host_memory ? torch::kCPU : local;
  if (!local.is_cuda())
    throw InputError("--device cuda: there is no GPU, or a libtorch without CUDA");
  if (in_host_memory)
    throw InputError(
        "--device cuda: parameter servers train in host memory alone so far: expected --device "
        "cpu");
  return local;
}

torch::Device device_of(const TrainOptions& options, torch::Device local,
                        torch::nn::Module& model) {
  const ShardedUnits* const units = units_of(model);
  return units != nullptr && options.device == "auto" ? units->device() : device_of(options, local);
}

}  // namespace sullae::train
