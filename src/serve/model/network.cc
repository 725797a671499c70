#include "serve/model/network.h"

#include <fmt/format.h>
#include <torch/cuda.h>

#include <algorithm>

#include "base/host.h"
#include "base/request_error.h"
#include "sullae/error.h"

namespace sullae::serve {

torch::Device device_of(const ModelConfig& config) {
  const torch::Device device(config.device);
  if (device.is_cpu()) return device;
  const int there = static_cast<int>(torch::cuda::device_count());
  if (there == 0)
    throw InputError(
        fmt::format("device = '{}': there is no GPU, or a libtorch without CUDA", config.device));
  if (device.has_index() && device.index() >= there)
    throw InputError(
        fmt::format("device = '{}': this machine's GPUs are 0 to {}", config.device, there - 1));
  return device;
}

int instances_of(const ModelConfig& config) {
  constexpr int kOnAGpu = 2;
  if (config.instances > 0) return config.instances;
  return config.device == "cpu" ? available_cpus() : kOnAGpu;
}

void refuse_computing(std::string_view trace) {
  std::string_view what = trace;
  for (std::string_view rest = trace; !rest.empty();) {
    const auto end = std::min(rest.find('\n'), rest.size());
    const auto line = rest.substr(0, end);
    if (line.starts_with("Exception raised from ")) break;  // where in libtorch, over many lines
    if (line.find_first_not_of(" \t") != std::string_view::npos) what = line;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  // The machine's fault, and not the request's.
  for (const std::string_view mark : {"out of memory", "can't allocate memory", "CUDA error"}) {
    if (trace.find(mark) != std::string_view::npos)
      throw Error(fmt::format("the model cannot compute now: {}", what));
  }
  refuse(fmt::format("the model cannot compute this request: {}", what));
}

}  // namespace sullae::serve
