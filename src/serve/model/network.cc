#include "serve/model/network.h"

#include <fmt/format.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/jit_exception.h>
#include <torch/cuda.h>

#include "base/request_error.h"
#include "sullae/error.h"

namespace sullae::serve {
namespace {

void collect(const torch::jit::IValue& value, std::vector<torch::Tensor>& into) {
  if (value.isTensor()) {
    into.push_back(value.toTensor());
  } else if (value.isTuple()) {
    for (const auto& element : value.toTupleRef().elements()) collect(element, into);
  } else if (value.isList()) {
    for (const torch::jit::IValue& element : value.toListRef()) collect(element, into);
  } else if (value.isGenericDict()) {
    for (const auto& item : value.toGenericDict()) collect(item.value(), into);
  } else {
    throw Error(
        fmt::format("the model returned a value of type {}, expected tensors", value.tagKind()));
  }
}

// In the order in which config.toml names them.
void collect_named(const c10::Dict<torch::jit::IValue, torch::jit::IValue>& values,
                   const std::vector<std::string>& names, std::vector<torch::Tensor>& into) {
  for (const auto& name : names) {
    const auto found = values.find(name);
    if (found == values.end())
      throw Error(fmt::format("the model returned no '{}', which config.toml says it does", name));
    collect(found->value(), into);
  }
}

// The interpreter tells where in the program it happened, over many lines, and what in the last one that is not empty.
[[noreturn]] void fail(std::string_view trace) {
  std::string_view what = trace;
  for (std::string_view rest = trace; !rest.empty();) {
    const auto end = std::min(rest.find('\n'), rest.size());
    const auto line = rest.substr(0, end);
    if (line.find_first_not_of(" \t") != std::string_view::npos) what = line;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  refuse(fmt::format("the model cannot compute this request: {}", what));
}

}  // namespace

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

Network::Network(torch::jit::Module module, const ModelConfig& config)
    : module_(std::move(module)), device_(device_of(config)) {
  for (const auto& output : config.outputs) outputs_.push_back(output.name);
  // Profiling would compile anew whenever batches of other sizes come, while requests wait.
  torch::jit::getProfilingMode() = false;
  try {
    module_.eval();
    module_.to(device_);
    module_ = torch::jit::freeze(module_);
    module_ = torch::jit::optimize_for_inference(module_);
  } catch (const c10::Error& error) {
    throw Error(
        fmt::format("cannot be compiled for inference: {}", error.what_without_backtrace()));
  }
}

std::vector<torch::Tensor> Network::run(std::vector<torch::jit::IValue> inputs) const {
  const c10::InferenceMode guard;
  std::vector<torch::Tensor> outputs;
  try {
    for (auto& input : inputs) {
      if (input.isTensor()) input = input.toTensor().to(device_);
    }
    const torch::jit::IValue answer = module_.forward(std::move(inputs));
    if (answer.isGenericDict() && !outputs_.empty()) {
      collect_named(answer.toGenericDict(), outputs_, outputs);
    } else {
      collect(answer, outputs);
    }
    for (auto& output : outputs) output = output.to(torch::kCPU);
  } catch (const c10::Error& error) {
    fail(error.what_without_backtrace());
  } catch (const torch::jit::JITException& error) {
    fail(error.what());
  } catch (const std::runtime_error& error) {  // as the interpreter wraps what its operations throw
    fail(error.what());
  }
  return outputs;
}

}  // namespace sullae::serve
