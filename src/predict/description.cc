#include "predict/description.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "base/hash.h"
#include "base/utf8.h"
#include "data/format/format.h"
#include "kafka/address.h"
#include "storage/storage.h"
#include "torch/checkpoint_file.h"

namespace sullae::predict {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::uint32_t checksum_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::vector<char> bytes(std::size_t{1} << 20);
  std::uint32_t crc = 0;
  while (stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size())) ||
         stream.gcount() > 0)
    crc = extend_crc(crc, bytes.data(), static_cast<std::size_t>(stream.gcount()));
  return crc;
}

// Of what a TorchScript module's folder says of it.
std::uint64_t checksum_of(const train::FoundModel& model, const serve::ModelConfig& config) {
  std::uint64_t sum = checksum_of(model.config);
  for (const auto& name : {config.vocabulary_file, config.classes_file}) {
    if (name.empty()) continue;
    for (const fs::path& folder :
         {model.file.parent_path(), model.file.parent_path().parent_path()})
      sum = sum * 31 + checksum_of(folder / name);
  }
  return sum;
}

// As JSON can hold it.
std::string name_of(const fs::path& path) {
  return replace_invalid_utf8(kafka::is_address(path.native()) ? path.string()
                                                               : storage::absolute(path).string());
}

json describe_file(const fs::path& file, const storage::Status& status) {
  return {{"file", name_of(file)}, {"bytes", status.bytes}, {"version", status.version}};
}

// A folder in whatever order its files are listed, and however many there are.
json describe(const fs::path& path) {
  const auto status = storage::status(path).value_or(storage::Status());
  if (!status.is_folder) return describe_file(path, status);
  std::uint64_t sum = 0;
  std::size_t files = 0;
  storage::for_each_file(path, [&](const fs::path& file, const storage::Status& its) {
    sum += fnv1a(describe_file(file, its).dump());
    ++files;
  });
  return {{"file", name_of(path)}, {"files", files}, {"checksum", sum}};
}

}  // namespace

json describe_data(const std::vector<fs::path>& paths) {
  auto files = json::array();
  for (const auto& file : data::find_part_files(paths)) {
    files.push_back(describe(file));
    auto labels = data::idx_labels_of(file);
    if (labels.empty()) continue;
    if (!storage::exists(labels)) labels += ".gz";
    files.push_back(describe(labels));
  }
  return files;
}

json describe_run(const PredictOptions& options, const train::FoundModel& model,
                  const serve::ModelConfig& config, const data::Dataset& set) {
  return {{"model", name_of(model.file)},
          {"model_checksum", checksum_of(model.file)},
          {"config_checksum", checksum_of(model, config)},
          {"data", describe_data(options.data)},
          {"samples", set.size()},
          // What labels that are numbers stand for may be said beside the files.
          {"classes", options.labels ? json(set.classes()) : json::array()},
          {"format", options.format},
          {"columns", options.columns},
          {"outputs", options.outputs},
          {"labels", options.labels},
          {"rows_per_file", options.rows_per_file},
          {"batch_size", options.batch_size},
          {"device", config.device.substr(0, config.device.find(':'))},
          {"data_format", options.reading.format},
          {"text_columns", options.reading.text_columns},
          {"label_column", options.reading.label_column}};
}

std::string changed_file(const std::vector<fs::path>& data, const json& run) {
  json now;
  try {
    now = describe_data(data);
  } catch (const InputError&) {
    return {};  // one was removed, which was read
  }
  std::map<std::string, const json*> files;
  for (const json& file : now) files.emplace(file.at("file"), &file);
  for (const json& file : run.at("data")) {
    const auto found = files.find(file.at("file"));
    if (found != files.end() && *found->second != file) return found->first;
  }
  return {};
}

std::string difference(const json& one, const json& other) {
  // What others follow from; --labels is why there are classes.
  for (const char* const flag : {"labels", "format", "columns", "outputs"}) {
    const auto was = other.find(flag);
    if (was != other.end() && *was != one.at(flag))
      return fmt::format("--{} was {}, and is {}", flag, was->dump(), one.at(flag).dump());
  }
  for (const auto& item : one.items()) {
    const auto found = other.find(item.key());
    if (found != other.end() && *found == item.value()) continue;
    if (found == other.end()) return fmt::format("{} is new", item.key());
    if (item.key() != "data")
      return fmt::format("{} was {}, and is {}", item.key(), found->dump(), item.value().dump());
    for (std::size_t i = 0; i < item.value().size() && i < found->size(); ++i) {
      const json& file = item.value()[i];
      if (file == (*found)[i]) continue;
      return file["file"] == (*found)[i]["file"]
                 ? fmt::format("{} has changed", file["file"].get<std::string>())
                 : fmt::format("{} was {}", file["file"].get<std::string>(),
                               (*found)[i]["file"].get<std::string>());
    }
    return fmt::format("the data were {} files, and are {}", found->size(), item.value().size());
  }
  return "it is described otherwise";
}

}  // namespace sullae::predict
