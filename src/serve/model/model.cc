#include "serve/model/model.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string_view>

#include "base/file.h"
#include "base/split.h"
#include "repository/publish.h"
#include "repository/versions.h"
#include "serve/protocol/predict.h"
#include "sullae/torch/checkpoint.h"

namespace sullae::serve {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCheckpoint = "sullae_checkpoint";

std::vector<std::string> read_lines(const fs::path& version, const std::string& name) {
  fs::path file = version / name;
  if (name.find("..") != std::string::npos || fs::path(name).is_absolute())
    throw InputError(fmt::format("'{}': expected a file of the model", name));
  if (!fs::exists(file)) file = version.parent_path() / name;
  constexpr std::size_t kMostBytes = std::size_t{256} << 20;
  return lines_of(read_file(file, kMostBytes));
}

std::vector<std::string> read_classes(const fs::path& version, const std::string& name) {
  auto classes = read_lines(version, name);
  std::map<std::string_view, std::size_t> lines;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const auto [first, is_new] = lines.emplace(classes[i], i);
    if (!is_new)
      throw InputError(
          fmt::format("{}: line {}: '{}' is the name of line {}, too: expected one "
                      "for each class",
                      name, i + 1, classes[i], first->second + 1));
  }
  return classes;
}

fs::path model_file_of(const fs::path& version) {
  auto file = repository::model_file_in(version);
  if (!file.empty()) return file;
  throw InputError(fmt::format(
      "{}: expected {} (a Sullae checkpoint), {} (TorchScript) or {} (AOTInductor)",
      version.string(), repository::kModelFile, repository::kScriptFile, repository::kPackageFile));
}

// Of a module that says nothing of itself but the names of its inputs.
std::vector<TensorSignature> signatures_of(const torch::jit::Module& module) {
  std::vector<TensorSignature> inputs;
  const auto& arguments = module.get_method("forward").function().getSchema().arguments();
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i].default_value()) continue;
    inputs.push_back({.name = arguments[i].name(), .shape = {}});
  }
  return inputs;
}

// Whether `found` has all of `expect`, numbers within `tolerance`.
bool agrees(const nlohmann::json& expect, const nlohmann::json& found, double tolerance) {
  if (expect.is_number() && found.is_number())
    return std::abs(expect.get<double>() - found.get<double>()) <= tolerance;
  if (expect.is_object()) {
    return found.is_object() && std::ranges::all_of(expect.items(), [&](const auto& item) {
             return found.contains(item.key()) &&
                    agrees(item.value(), found.at(item.key()), tolerance);
           });
  }
  if (expect.is_array()) {
    return found.is_array() && found.size() == expect.size() &&
           std::equal(expect.begin(), expect.end(), found.begin(),
                      [&](const auto& a, const auto& b) { return agrees(a, b, tolerance); });
  }
  return expect == found;
}

void expect_numbers(const std::vector<InferTensor>& answer) {
  for (const InferTensor& output : answer) {
    if (output.datatype != Datatype::fp32) continue;
    for (std::size_t at = 0; at + sizeof(float) <= output.data.size(); at += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, output.data.data() + at, sizeof value);
      if (std::isnan(value))
        throw Error("the answer to an ordinary request is no number: its weights have diverged");
    }
  }
}

// What would have no effect was meant otherwise.
void expect_fitting_config(const ModelConfig& config, const fs::path& file) {
  const bool has_codec = config.preprocessing != Preprocessing::none;
  if (has_codec && (!config.inputs.empty() || !config.outputs.empty()))
    throw InputError(fmt::format(
        "{}: preprocessing says what goes in and out: expected no [[inputs]] and [[outputs]]",
        file.string()));
  if (!has_codec && (!config.classes_file.empty() || !config.vocabulary_file.empty()))
    throw InputError(fmt::format(
        "{}: classes and vocabulary need preprocessing = \"text\" or \"image\"", file.string()));
}

}  // namespace

Model::Model(const fs::path& path, const ModelConfig& config)
    : config_(config), max_batch_size_(std::max<std::int64_t>(config.max_batch_size, 1)) {
  const fs::path file = fs::is_directory(path) ? model_file_of(path) : path;
  if (file.extension() == fs::path(repository::kScriptFile).extension()) {
    load_torchscript(file);
  } else if (file.extension() == fs::path(repository::kPackageFile).extension()) {
    load_package(file);
  } else {
    load_checkpoint(file);
  }
}

void Model::load_checkpoint(const fs::path& file) {
  platform_ = kCheckpoint;
  const auto description = train::description_of(read_checkpoint_metadata(file), file.string());
  const auto network = train::find_recipe(description.recipe).model(description);
  sullae::load_checkpoint(file, *network);
  network->eval();
  network->to(device_of(config_));
  const auto* servable = dynamic_cast<const train::Servable*>(network.get());
  network_ = make_script_network(servable->script(), config_);
  writer_ = std::dynamic_pointer_cast<train::LanguageModel>(network);
  if (writer_) {
    language_.emplace(description);
    codec_ = make_next_piece_codec(*language_);
    return;
  }
  codec_ = description.input == train::InputKind::text ? make_text_codec(description)
                                                       : make_image_codec(description);
}

void Model::load_torchscript(const fs::path& file) {
  platform_ = "pytorch_torchscript";
  torch::jit::Module module;
  try {
    module = torch::jit::load(file.string(), torch::kCPU);
  } catch (const c10::Error& error) {
    throw InputError(fmt::format("{}: is no TorchScript module: {}", file.string(),
                                 error.what_without_backtrace()));
  }
  if (!module.find_method("forward"))
    throw InputError(fmt::format("{}: has no method forward", file.string()));
  auto inputs = config_.inputs.empty() ? signatures_of(module) : config_.inputs;
  configure(file, std::move(inputs));
  network_ = make_script_network(std::move(module), config_);
}

void Model::load_package(const fs::path& file) {
  platform_ = "torch_aoti";
  if (config_.preprocessing == Preprocessing::none &&
      (config_.inputs.empty() || config_.outputs.empty()))
    throw InputError(
        fmt::format("{}: what a package takes and gives it does not say itself: expected "
                    "[[inputs]] and [[outputs]] in {}",
                    file.string(), repository::kModelConfig));
  configure(file, config_.inputs);
  network_ = make_package_network(file, config_, instances_of(config_));
}

// What the configuration says of a network that is no checkpoint: how requests become its input.
void Model::configure(const fs::path& file, std::vector<TensorSignature> inputs) {
  expect_fitting_config(config_, file.parent_path().parent_path() / repository::kModelConfig);
  auto description = config_.description;
  if (!config_.classes_file.empty())
    description.classes = read_classes(file.parent_path(), config_.classes_file);
  if (config_.preprocessing == Preprocessing::text) {
    if (config_.vocabulary_file.empty())
      throw InputError(fmt::format("{}: preprocessing = \"text\" needs vocabulary = \"FILE\"",
                                   (file.parent_path().parent_path() / "config.toml").string()));
    description.words = read_lines(file.parent_path(), config_.vocabulary_file);
    codec_ = make_text_codec(description);
  } else if (config_.preprocessing == Preprocessing::image) {
    codec_ = make_image_codec(description);
  } else {
    // Nothing says that the first dimension is a batch's unless the configuration does.
    const bool batched = !config_.inputs.empty() && config_.max_batch_size > 0;
    if (!batched) max_batch_size_ = 1;
    codec_ = make_tensor_codec(std::move(inputs), config_.outputs, batched);
  }
}

std::vector<std::vector<torch::Tensor>> Model::go_on(const std::vector<const Rows*>& texts) const {
  const c10::InferenceMode guard;
  std::vector<train::NewPieces> pieces;
  for (const Rows* text : texts) pieces.push_back({text->words.at(0), text->cache});
  const auto scores = writer_->go_on(pieces).to(torch::kCPU);
  std::vector<std::vector<torch::Tensor>> parts;
  for (std::int64_t i = 0; i < scores.size(0); ++i) parts.push_back({scores.narrow(0, i, 1)});
  return parts;
}

std::vector<std::vector<torch::Tensor>> Model::run(const std::vector<const Rows*>& requests) const {
  if (requests.front()->cache != nullptr) return go_on(requests);
  const auto outputs = network_->run(codec_->collate(requests));
  if (!codec_->is_batched()) return {outputs};
  std::int64_t total = 0;
  for (const Rows* rows : requests) total += rows->count;
  for (const auto& output : outputs) {
    if (output.dim() == 0 || output.size(0) != total)
      throw Error(fmt::format(
          "the model returned {} for a batch of {} rows: it cannot compute batches; set "
          "max_batch_size = 0",
          output.dim() == 0 ? std::string("a single number")
                            : fmt::format("{} rows", output.size(0)),
          total));
  }
  std::vector<std::vector<torch::Tensor>> parts;
  std::int64_t begin = 0;
  for (const Rows* rows : requests) {
    std::vector<torch::Tensor> part;
    for (const auto& output : outputs) part.push_back(output.narrow(0, begin, rows->count));
    parts.push_back(std::move(part));
    begin += rows->count;
  }
  return parts;
}

std::vector<InferTensor> Model::answer_together(const std::vector<const Rows*>& rows) const {
  return codec_->encode(network_->run(codec_->collate(rows)));
}

std::vector<InferTensor> Model::answer(const InferRequest& request) const {
  const Rows rows = codec_->decode(request);
  return codec_->encode(run({&rows}).at(0));
}

void Model::warm_up() const {
  for (std::int64_t rows = 1; rows <= max_batch_size_; rows *= 4) {
    const auto request = codec_->example(rows);
    if (request.inputs.empty()) return;
    for (int round = 0; round < 2; ++round) {
      const auto answered = answer(request);
      // A network of another's making may have reasons of its own, as one that divides by what a
      // picture of one colour has not.
      if (platform_ == kCheckpoint) expect_numbers(answered);
    }
  }
}

void Model::check_golden() const {
  for (const auto& golden : config_.golden) {
    std::string found;
    try {
      const auto request =
          predict_request({{"instances", nlohmann::json::array({golden.instance})}}, *codec_);
      const auto answered = predict_response(answer(request), PredictForm::rows);
      const auto& prediction = answered.at("predictions").at(0);
      if (agrees(golden.expect, prediction, golden.tolerance)) continue;
      found = prediction.dump();
    } catch (const RequestError& error) {
      found = fmt::format("the error '{}'", error.what());
    }
    throw Error(fmt::format("golden request {}: expected {}, got {}", golden.instance.dump(),
                            golden.expect.dump(), found));
  }
}

}  // namespace sullae::serve
