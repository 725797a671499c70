#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/script.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <sstream>

#include "base/counted.h"
#include "base/file.h"
#include "repository/publish.h"
#include "storage/storage.h"
#include "sullae/error.h"
#include "sullae/train.h"
#include "train/models/script.h"
#include "train/served_signature.h"

namespace sullae {
namespace {

bool is(const torch::Tensor& value, const ServedTensor& tensor, std::int64_t rows, bool batched) {
  return value.scalar_type() == tensor.type &&
         value.dim() == static_cast<std::int64_t>(tensor.shape.size()) &&
         (!batched || (value.dim() > 0 && value.size(0) == rows)) &&
         std::ranges::equal(value.sizes(), tensor.shape,
                            [](auto size, auto wanted) { return wanted == -1 || size == wanted; });
}

std::vector<torch::Tensor> run(torch::jit::Module& script,
                               const std::vector<torch::jit::IValue>& inputs, std::int64_t rows) {
  const torch::NoGradGuard guard;
  try {
    const auto result = script.forward(inputs);
    if (result.isTensor()) return {result.toTensor()};
    if (!result.isTuple())
      throw InputError(
          fmt::format("forward returns a value of type {}, expected a tensor or a tuple of tensors",
                      result.tagKind()));
    std::vector<torch::Tensor> outputs;
    for (const auto& element : result.toTupleRef().elements())
      outputs.push_back(element.toTensor());
    return outputs;
  } catch (const c10::Error& error) {
    throw InputError(
        fmt::format("forward fails for {} rows: {}", rows, error.what_without_backtrace()));
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {  // the interpreter's
    throw InputError(fmt::format("forward fails for {} rows: {}", rows, error.what()));
  }
}

void try_out(torch::jit::Module& script, const TorchScriptExport& options, std::int64_t rows) {
  constexpr std::int64_t kAnySize =
      8;  // as sullae.serve.export() tries: more than a small kernel has
  const bool batched = options.max_batch_size > 0;
  std::vector<torch::jit::IValue> inputs;
  for (const auto& input : train::inputs_of(options)) {
    auto shape = input.shape;
    if (batched && (shape.empty() || shape[0] != -1))
      throw InputError(
          fmt::format("input '{}': the first size is the batch, expected -1 (or "
                      "max_batch_size = 0)",
                      input.name));
    if (batched) shape[0] = rows;
    std::ranges::replace(shape, -1, kAnySize);
    // A word that any vocabulary has, or so many of them.
    const bool is_text = std::holds_alternative<ServedTexts>(options.preprocessing);
    inputs.emplace_back(is_text ? torch::ones(shape, input.type) : torch::zeros(shape, input.type));
  }
  const auto& arguments = script.get_method("forward").function().getSchema().arguments();
  const auto most = arguments.size() - 1;  // but for self
  const auto optional = static_cast<std::size_t>(std::ranges::count_if(
      arguments, [](const auto& argument) { return argument.default_value().has_value(); }));
  if (inputs.size() + optional < most || inputs.size() > most)
    throw InputError(fmt::format("forward takes {} tensors, but there are {} inputs",
                                 most - optional, inputs.size()));
  const auto outputs = run(script, inputs, rows);
  const auto wanted = train::outputs_of(options);
  if (outputs.size() != wanted.size())
    throw InputError(fmt::format("forward returns {} tensors, but there are {} outputs",
                                 outputs.size(), wanted.size()));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (is(outputs[i], wanted[i], rows, batched)) continue;
    throw InputError(fmt::format(
        "output '{}': forward returns {} [{}] for {}, expected {} [{}]", wanted[i].name,
        torch::toString(outputs[i].scalar_type()), fmt::join(outputs[i].sizes(), ", "),
        counted(rows, "row"), torch::toString(wanted[i].type), fmt::join(wanted[i].shape, ", ")));
  }
}

// Which may be on a GPU, and is another's: the copy is not.
torch::jit::Module copy_of(const torch::jit::Module& module) {
  auto copy = module.deepcopy();
  copy.to(torch::kCPU);
  copy.eval();
  return copy;
}

void write_lines(const std::filesystem::path& file, const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += line + '\n';
  write_file(file, text);
}

// `write_model` writes the model's file.
std::filesystem::path publish(
    const TorchScriptExport& options,
    const std::function<void(const std::filesystem::path& folder)>& write_model) {
  const auto config = options.repository / options.name / repository::kModelConfig;
  if (storage::exists(config)) train::check_fits_config(options, config);
  const auto write = [&](const std::filesystem::path& folder) {
    write_model(folder);
    if (!options.classes.empty()) write_lines(folder / train::kClassesFile, options.classes);
    if (const auto* texts = std::get_if<ServedTexts>(&options.preprocessing))
      write_lines(folder / train::kVocabularyFile, texts->vocabulary);
  };
  return repository::publish_version(options.repository, options.name, train::config_of(options),
                                     write);
}

}  // namespace

std::filesystem::path export_torchscript(const torch::jit::Module& module,
                                         const TorchScriptExport& options) {
  train::check_export(options);
  if (!module.find_method("forward")) throw InputError("the module has no method forward");
  auto script = copy_of(module);
  try_out(script, options, 1);
  if (options.max_batch_size > 1) try_out(script, options, 3);
  return publish(options, [&](const std::filesystem::path& folder) {
    std::ostringstream bytes;
    script.save(bytes);
    write_file(folder / repository::kScriptFile, bytes.str());
  });
}

std::filesystem::path export_torchscript(const torch::nn::Module& module, const std::string& source,
                                         const TorchScriptExport& options) {
  train::check_export(options);
  torch::jit::Module script("sullae_model");
  try {
    script = train::make_script(module, source);
    script.get_method("forward");
  } catch (const c10::Error& error) {
    throw InputError(fmt::format("the source: {}", error.what_without_backtrace()));
  } catch (const std::exception& error) {  // the lexer's and the compiler's
    throw InputError(fmt::format("the source: {}", error.what()));
  }
  return export_torchscript(script, options);
}

std::filesystem::path export_package(const std::filesystem::path& package,
                                     const TorchScriptExport& options) {
  train::check_export(options);
  if (!std::filesystem::is_regular_file(package))
    throw InputError(fmt::format("{}: is no file, expected a package", package.string()));
  return publish(options, [&](const std::filesystem::path& folder) {
    write_file(folder / repository::kPackageFile,
               read_file(package, std::numeric_limits<std::size_t>::max()));
  });
}

}  // namespace sullae
