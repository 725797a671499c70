#include "train/served_signature.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <unordered_set>

#include "base/toml_file.h"
#include "storage/storage.h"
#include "sullae/error.h"

namespace sullae::train {
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

void check_tensors(const std::vector<ServedTensor>& tensors, const char* what) {
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

// Each is a line of a file.
void check_lines(const std::vector<std::string>& lines, const char* what) {
  std::unordered_set<std::string_view> known;
  for (const auto& line : lines) {
    if (line.find_first_of("\r\n") != std::string::npos)
      throw InputError(fmt::format("{}: '{}' has a line break", what, line));
    if (!known.insert(line).second)
      throw InputError(fmt::format("{}: '{}' is there twice", what, line));
  }
}

void check_images(const ServedImages& images) {
  if (images.size < 1 || images.size > 1 << 14)
    throw InputError(fmt::format("images: size {}, expected 1 to {}", images.size, 1 << 14));
  if (images.channels != 1 && images.channels != 3)
    throw InputError(fmt::format("images: {} channels, expected 1 or 3", images.channels));
  if (!(images.centre_share > 0 && images.centre_share <= 1))
    throw InputError(
        fmt::format("images: centre_share {}, expected above 0, up to 1", images.centre_share));
  for (const auto* values : {&images.mean, &images.deviation}) {
    if (values->size() != 1 && values->size() != 3)
      throw InputError(
          fmt::format("images: {} numbers for mean or deviation, expected 1 or 3", values->size()));
  }
  if (!std::ranges::all_of(images.deviation, [](double value) { return value > 0; }))
    throw InputError("images: deviation: expected numbers above 0");
}

}  // namespace

void check_export(const TorchScriptExport& options) {
  if (std::holds_alternative<std::monostate>(options.preprocessing)) {
    check_tensors(options.inputs, "inputs");
    check_tensors(options.outputs, "outputs");
    if (!options.classes.empty())
      throw InputError("classes: they are answered with preprocessing alone");
    return;
  }
  if (!options.inputs.empty() || !options.outputs.empty())
    throw InputError("inputs and outputs: preprocessing knows them, expected none");
  if (options.max_batch_size < 1)
    throw InputError("max_batch_size: preprocessing makes batches, expected 1 or more");
  check_lines(options.classes, "classes");
  if (const auto* texts = std::get_if<ServedTexts>(&options.preprocessing)) {
    check_lines(texts->vocabulary, "vocabulary");
    if (texts->max_words < 1 || texts->max_words > 1 << 20)
      throw InputError(
          fmt::format("texts: max_words {}, expected 1 to {}", texts->max_words, 1 << 20));
  } else {
    check_images(std::get<ServedImages>(options.preprocessing));
  }
}

std::string config_of(const TorchScriptExport& options) {
  std::string text = fmt::format(
      "# Written by sullae::export_torchscript; `sullae serve` reads it.\n"
      "max_batch_size = {}\n",
      options.max_batch_size);
  if (!options.classes.empty()) text += fmt::format("classes = \"{}\"\n", kClassesFile);
  if (const auto* texts = std::get_if<ServedTexts>(&options.preprocessing))
    return text + fmt::format(
                      "preprocessing = \"text\"\nvocabulary = \"{}\"\nmax_words = {}\n"
                      "normalise = {}\n",
                      kVocabularyFile, texts->max_words, texts->normalise);
  if (const auto* images = std::get_if<ServedImages>(&options.preprocessing))
    return text + fmt::format(
                      "preprocessing = \"image\"\nimage_size = {}\nchannels = {}\n"
                      "centre_share = {}\nmean = [{}]\ndeviation = [{}]\n",
                      images->size, images->channels, images->centre_share,
                      fmt::join(images->mean, ", "), fmt::join(images->deviation, ", "));
  const auto add = [&](const char* list, const std::vector<ServedTensor>& tensors) {
    for (const auto& tensor : tensors)
      text += fmt::format("\n[[{}]]\nname = \"{}\"\ndatatype = \"{}\"\nshape = [{}]\n", list,
                          tensor.name, datatype_name(tensor), fmt::join(tensor.shape, ", "));
  };
  add("inputs", options.inputs);
  add("outputs", options.outputs);
  return text;
}

void check_fits_config(const TorchScriptExport& options, const std::filesystem::path& config) {
  const auto text_of = [](const toml::node* node) {
    std::ostringstream text;
    if (node != nullptr) node->visit([&](const auto& value) { text << value; });
    // On one line, however long.
    std::string line;
    std::istringstream words(text.str());
    for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
    return line;
  };
  const auto there = TomlFile(config).parse(storage::read_file(config, TomlFile::kMostBytes));
  const auto own = toml::parse(config_of(options));
  for (const char* key :
       {"preprocessing", "inputs", "outputs", "classes", "vocabulary", "max_words", "normalise",
        "image_size", "channels", "centre_share", "mean", "deviation"}) {
    const auto before = text_of(there.get(key));
    const auto now = text_of(own.get(key));
    if (before == now) continue;
    throw InputError(fmt::format(
        "{}: {} is {} there, by which all versions of the model are served, and {} for this one: "
        "expected the same; a model that takes or gives something else needs a name of its own",
        config.string(), key, before.empty() ? "nothing" : before, now.empty() ? "nothing" : now));
  }
}

std::vector<ServedTensor> inputs_of(const TorchScriptExport& options) {
  if (const auto* images = std::get_if<ServedImages>(&options.preprocessing))
    return {{"pixels", torch::kFloat32, {-1, images->channels, images->size, images->size}}};
  if (std::holds_alternative<ServedTexts>(options.preprocessing))
    return {{"words", torch::kInt64, {-1, -1}}, {"lengths", torch::kInt64, {-1}}};
  return options.inputs;
}

std::vector<ServedTensor> outputs_of(const TorchScriptExport& options) {
  if (std::holds_alternative<std::monostate>(options.preprocessing)) return options.outputs;
  const auto classes = static_cast<std::int64_t>(options.classes.size());
  return {{"scores", torch::kFloat32, {-1, classes > 0 ? classes : -1}}};
}

}  // namespace sullae::train
