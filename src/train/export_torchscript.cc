#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/script.h>

#include <algorithm>
#include <sstream>

#include "base/file.h"
#include "repository/publish.h"
#include "sullae/error.h"
#include "sullae/train.h"
#include "train/models/script.h"

namespace sullae {
namespace {

// The Open Inference Protocol's names.
const char* datatype_name(const ServedTensor& tensor) {
  switch (tensor.type) {
    case torch::kBool:
      return "BOOL";
    case torch::kUInt8:
      return "UINT8";
    case torch::kInt8:
      return "INT8";
    case torch::kInt16:
      return "INT16";
    case torch::kInt32:
      return "INT32";
    case torch::kInt64:
      return "INT64";
    case torch::kFloat16:
      return "FP16";
    case torch::kBFloat16:
      return "BF16";
    case torch::kFloat32:
      return "FP32";
    case torch::kFloat64:
      return "FP64";
    default:
      throw InputError(fmt::format("'{}': {} tensors cannot be served", tensor.name,
                                   torch::toString(tensor.type)));
  }
}

void check(const std::vector<ServedTensor>& tensors, const char* what) {
  if (tensors.empty()) throw InputError(fmt::format("{}: expected at least one tensor", what));
  for (const auto& tensor : tensors) {
    datatype_name(tensor);
    const auto is_plain = [](unsigned char c) {
      return c > ' ' && c != '"' && c != '\'' && c != '\\' && c < 0x7f;
    };
    if (tensor.name.empty() || !std::ranges::all_of(tensor.name, is_plain))
      throw InputError(fmt::format("{}: '{}' cannot be the name of a tensor", what, tensor.name));
    if (std::ranges::any_of(tensor.shape, [](auto size) { return size < -1 || size == 0; }))
      throw InputError(fmt::format("{}: '{}' has the shape [{}], expected sizes from 1, or -1",
                                   what, tensor.name, fmt::join(tensor.shape, ", ")));
  }
}

std::string config_of(const TorchScriptExport& options) {
  std::string text = fmt::format(
      "# Written by sullae::export_torchscript; `sullae serve` reads it.\n"
      "max_batch_size = {}\n",
      options.max_batch_size);
  const auto add = [&](const char* list, const std::vector<ServedTensor>& tensors) {
    for (const auto& tensor : tensors)
      text += fmt::format("\n[[{}]]\nname = \"{}\"\ndatatype = \"{}\"\nshape = [{}]\n", list,
                          tensor.name, datatype_name(tensor), fmt::join(tensor.shape, ", "));
  };
  add("inputs", options.inputs);
  add("outputs", options.outputs);
  return text;
}

bool is(const torch::Tensor& value, const ServedTensor& tensor, std::int64_t rows, bool batched) {
  return value.scalar_type() == tensor.type &&
         value.dim() == static_cast<std::int64_t>(tensor.shape.size()) &&
         (!batched || (value.dim() > 0 && value.size(0) == rows)) &&
         std::ranges::equal(value.sizes(), tensor.shape,
                            [](auto size, auto wanted) { return wanted == -1 || size == wanted; });
}

void try_out(torch::jit::Module& script, const TorchScriptExport& options, std::int64_t rows) {
  constexpr std::int64_t kAnySize = 2;
  const bool batched = options.max_batch_size > 0;
  std::vector<torch::jit::IValue> inputs;
  for (const auto& input : options.inputs) {
    auto shape = input.shape;
    if (batched && (shape.empty() || shape[0] != -1))
      throw InputError(
          fmt::format("input '{}': the first size is the batch, expected -1 (or "
                      "max_batch_size = 0)",
                      input.name));
    if (batched) shape[0] = rows;
    std::ranges::replace(shape, -1, kAnySize);
    inputs.emplace_back(torch::zeros(shape, input.type));
  }
  const auto expected_arguments = script.get_method("forward").num_inputs() - 1;
  if (inputs.size() != expected_arguments)
    throw InputError(fmt::format("forward takes {} tensors, but there are {} inputs",
                                 expected_arguments, inputs.size()));
  const torch::NoGradGuard guard;
  std::vector<torch::Tensor> outputs;
  try {
    const auto result = script.forward(inputs);
    if (result.isTuple()) {
      for (const auto& element : result.toTupleRef().elements())
        outputs.push_back(element.toTensor());
    } else {
      outputs.push_back(result.toTensor());
    }
  } catch (const c10::Error& error) {
    throw InputError(
        fmt::format("forward fails for {} rows: {}", rows, error.what_without_backtrace()));
  } catch (const std::runtime_error& error) {  // the interpreter's
    throw InputError(fmt::format("forward fails for {} rows: {}", rows, error.what()));
  }
  if (outputs.size() != options.outputs.size())
    throw InputError(fmt::format("forward returns {} tensors, but there are {} outputs",
                                 outputs.size(), options.outputs.size()));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& wanted = options.outputs[i];
    if (is(outputs[i], wanted, rows, batched)) continue;
    throw InputError(fmt::format(
        "output '{}': forward returns {} [{}] for {} row{}, expected {} [{}]", wanted.name,
        torch::toString(outputs[i].scalar_type()), fmt::join(outputs[i].sizes(), ", "), rows,
        rows == 1 ? "" : "s", torch::toString(wanted.type), fmt::join(wanted.shape, ", ")));
  }
}

}  // namespace

std::filesystem::path export_torchscript(const torch::nn::Module& module, const std::string& source,
                                         const TorchScriptExport& options) {
  check(options.inputs, "inputs");
  check(options.outputs, "outputs");
  torch::jit::Module script("sullae_model");
  try {
    script = train::make_script(module, source);
    script.get_method("forward");
  } catch (const c10::Error& error) {
    throw InputError(fmt::format("the source: {}", error.what_without_backtrace()));
  } catch (const std::exception& error) {  // the lexer's and the compiler's
    throw InputError(fmt::format("the source: {}", error.what()));
  }
  script.to(torch::kCPU);
  script.eval();
  try_out(script, options, 1);
  if (options.max_batch_size > 1) try_out(script, options, 3);
  return repository::publish_version(options.repository, options.name, config_of(options),
                                     [&](const std::filesystem::path& folder) {
                                       std::ostringstream bytes;
                                       script.save(bytes);
                                       write_file(folder / repository::kScriptFile, bytes.str());
                                     });
}

}  // namespace sullae
