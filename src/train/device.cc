#include "train/device.h"

#include <fmt/format.h>

#include "sullae/error.h"
#include "train/ranks.h"
#include "train/update/weight_update.h"

namespace sullae::train {

std::string host_memory_reason(const TrainOptions& options) {
  if (has_parameter_servers()) return "parameter servers";
  if (options.shard != "none") return "--shard " + options.shard;
  if (divides_model(options)) return "--mesh " + options.mesh;
  return {};
}

torch::Device device_of(const torch::nn::Module& model) {
  const auto parameters = model.parameters();
  return parameters.empty() ? torch::Device(torch::kCPU) : parameters.front().device();
}

torch::Device device_of(const TrainOptions& options, torch::Device local) {
  if (options.device == "cpu") return torch::kCPU;
  if (options.device == "auto" && !host_memory_reason(options).empty()) return torch::kCPU;
  if (options.device == "auto") return local;
  if (!local.is_cuda())
    throw InputError("--device cuda: there is no GPU, or a libtorch without CUDA");
  if (const auto reason = host_memory_reason(options); !reason.empty())
    throw InputError(fmt::format(
        "--device cuda: {} trains in host memory alone so far: expected --device cpu", reason));
  return local;
}

}  // namespace sullae::train
