#include <fmt/format.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/jit_exception.h>

#include "serve/model/network.h"
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

class ScriptNetwork final : public Network {
 public:
  ScriptNetwork(torch::jit::Module module, const ModelConfig& config)
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

  std::vector<torch::Tensor> run(std::vector<torch::jit::IValue> inputs) const override {
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
    } catch (const Error&) {
      throw;  // of what it returned, which is no request's fault
    } catch (const c10::Error& error) {
      refuse_computing(error.what_without_backtrace());
    } catch (const torch::jit::JITException& error) {
      refuse_computing(error.what());
    } catch (
        const std::runtime_error& error) {  // as the interpreter wraps what its operations throw
      refuse_computing(error.what());
    }
    return outputs;
  }

 private:
  mutable torch::jit::Module module_;
  torch::Device device_;
  std::vector<std::string> outputs_;  // as the configuration names them
};

}  // namespace

std::unique_ptr<Network> make_script_network(torch::jit::Module module, const ModelConfig& config) {
  return std::make_unique<ScriptNetwork>(std::move(module), config);
}

}  // namespace sullae::serve
