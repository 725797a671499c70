#include "parallel/pipeline/layer_cost.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "parallel/pipeline/arrival_gate.h"
#include "sullae/error.h"
#include "torch/compat/total_bytes.h"

namespace sullae::pipeline {
namespace {

constexpr int kRepetitions = 3;

// Libtorch tells it what this thread allocates and frees.
class AllocatedBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*ptr*/, std::int64_t bytes, TotalBytes /*allocated*/,
                         TotalBytes /*reserved*/, c10::Device /*device*/) override {
    now_ += static_cast<double>(bytes);
  }
  bool memoryProfilingEnabled() const override { return true; }
  double now() const { return now_; }

 private:
  double now_ = 0;
};

class KeptGenerator {
 public:
  KeptGenerator()
      : generator_(at::detail::getDefaultCPUGenerator()), state_(generator_.get_state()) {}
  ~KeptGenerator() { generator_.set_state(state_); }
  KeptGenerator(const KeptGenerator&) = delete;
  KeptGenerator& operator=(const KeptGenerator&) = delete;

 private:
  at::Generator generator_;
  torch::Tensor state_;
};

double parameter_bytes(const torch::nn::Module& module) {
  double bytes = 0;
  for (const auto& parameter : module.parameters())
    bytes += static_cast<double>(parameter.nbytes());
  return bytes;
}

// `output` becomes what the layer makes of `input`.
LayerCost cost_of(torch::nn::AnyModule& layer, const torch::Tensor& input, torch::Tensor& output) {
  LayerCost cost;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    output = torch::Tensor();
    const auto allocated = std::make_shared<AllocatedBytes>();
    auto x = input.clone();  // which the layer may change
    if (x.is_floating_point()) x = enter_stage(x, std::make_shared<torch::Tensor>());
    const auto start = std::chrono::steady_clock::now();
    {
      const c10::DebugInfoGuard counts(c10::DebugInfoKind::PROFILER_STATE, allocated);
      output = layer.forward(x);
    }
    if (output.requires_grad()) output.backward(torch::ones_like(output));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    cost.seconds = repetition == 0 ? took.count() : std::min(cost.seconds, took.count());
    cost.activation_bytes = std::max(cost.activation_bytes, allocated->now());
  }
  return cost;
}

}  // namespace

std::vector<LayerCost> measure(const torch::nn::Sequential& layers, const torch::Tensor& sample,
                               double bytes_per_parameter_byte) {
  const KeptGenerator generator;
  std::vector<LayerCost> costs;
  torch::Tensor x = sample;
  for (std::size_t i = 0; i < layers->size(); ++i) {
    const auto& layer = *(layers->begin() + static_cast<std::ptrdiff_t>(i));
    torch::Tensor output;
    try {
      auto copy = layer.clone();
      costs.push_back(cost_of(copy, x, output));
    } catch (const c10::Error& error) {
      throw InputError(fmt::format("divide: layer {} ({}) cannot be measured with [{}]: {}", i,
                                   layer.ptr()->name(), fmt::join(x.sizes(), ", "),
                                   error.what_without_backtrace()));
    }
    costs.back().parameter_bytes = parameter_bytes(*layer.ptr()) * bytes_per_parameter_byte;
    x = output.detach();
  }
  return costs;
}

}  // namespace sullae::pipeline
